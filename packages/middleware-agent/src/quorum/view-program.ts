import type { EngineRole, FencedEngine } from "../engine.ts";
import type { ProgramView } from "./duty.ts";

/** The state of a program; both fields are undefined if it does not respond. */
export interface ViewedProgram {
  readonly role: EngineRole | undefined;
  readonly program: ProgramView | undefined;
}

/** Looks at the own program, and at the program of the primary at `primaryHost` if the replication link is down. */
export async function viewProgram(engine: FencedEngine, primaryHost: string | undefined): Promise<ViewedProgram> {
  try {
    const role = await engine.role();
    const isPrimary = role.role === "primary";
    const isReplica = role.role === "replica";
    const isLinkDown = isReplica && role.info["isInSync"] === "false";
    const program: ProgramView = {
      role: isPrimary ? "primary" : isReplica ? "replica" : "other",
      offset: Number(role.info["offset"] ?? 0),
      isFenced: isPrimary && (await engine.isFenced()),
      isHolderDown: isLinkDown && primaryHost !== undefined && (await engine.isDown(primaryHost)),
    };
    return { role, program };
  } catch {
    return { role: undefined, program: undefined };
  }
}
