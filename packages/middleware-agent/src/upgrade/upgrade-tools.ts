import type { ServiceImpl } from "@connectrpc/connect";
import type { ToolInvoker } from "../agent2.generated.ts";
import type { Outcome } from "../engine.ts";
import type { UpgradeEngine } from "./upgrade-engine.ts";

/** The upgrade methods of an agent. */
export type UpgradeTools = Pick<ServiceImpl<typeof ToolInvoker>, "checkUpgrade" | "upgradeData">;

/** Serves the upgrades of an engine. Calls that arrive during a check get its result. */
export function createUpgradeTools(engine: UpgradeEngine, performing: <T>(act: () => Promise<T>) => Promise<T>): UpgradeTools {
  const checks = new Map<string, Promise<Outcome>>();
  const check = (version: string): Promise<Outcome> => {
    const running = checks.get(version) ?? engine.check(version).finally(() => checks.delete(version));
    checks.set(version, running);
    return running;
  };
  const answer = (outcome: Outcome) => ({ success: outcome.ok, error: outcome.ok ? "" : outcome.error });
  return {
    checkUpgrade: async ({ version }) => answer(await performing(() => check(version))),
    upgradeData: async () => answer(await performing(() => engine.start())),
  };
}
