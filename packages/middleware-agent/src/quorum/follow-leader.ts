import type { Logger } from "@keelson/controller";
import type { EngineRole, FencedEngine } from "../engine.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";

/** Makes the own program follow the Pod that was elected. Resolves to whether it does so now. `role`: undefined if it does not respond. */
export async function followLeader(
  { leader, state }: LeaseKeeper,
  role: EngineRole | undefined,
  { self, engine, log }: { readonly self: string; readonly engine: FencedEngine; readonly log: Logger },
): Promise<boolean> {
  const { promised, tenure } = state;
  if (role === undefined || leader === undefined || promised?.holder !== leader.name) return false;
  if (leader.name === self || tenure !== undefined || role.role === "stopped") return false;
  if (role.role === "replica" && role.info["primaryHost"] === leader.host) return false;
  const outcome = await engine.assign({ role: "replica", primaryHost: leader.host, epoch: promised.epoch });
  if (!outcome.ok) log.warn({ leader, error: outcome.error }, "could not follow the primary; retrying");
  else log.info({ leader, epoch: promised.epoch }, "following the primary that holds the lease");
  return outcome.ok;
}
