import type { Logger } from "@keelson/controller";
import type { FencedEngine } from "../engine.ts";
import type { LeaseKeeperOptions } from "./lease-keeper.ts";

/** Options of a `QuorumAgent`. */
export interface QuorumOptions extends LeaseKeeperOptions {
  readonly engine: FencedEngine;
  readonly random: () => number;
  readonly log: Logger;
  /** Whether a controller is connected. */
  readonly hasController: () => boolean;
}
