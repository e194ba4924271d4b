import type { Outcome } from "../engine.ts";

/**
 * Upgrades of data that programs of the next version cannot read as it is, and that they cannot replicate: the plugin names them in
 * `compatibility.stopFor`. All Pods of the Group are stopped, the primary's data is upgraded, and replicas copy it.
 *
 * While the data of a Pod needs an upgrade, `role()` reports its version as `dataVersion`, the engine starts no program, and it refuses to
 * become the primary. `upgrade` is `running`, or `failed: ` and the reason.
 */
export interface UpgradeEngine {
  /** Checks, on the running primary, whether its data could be upgraded to a version. Changes nothing. Rejects if the check itself fails. */
  check(version: string): Promise<Outcome>;
  /**
   * Starts to upgrade the data of this Pod to the version of its program, and returns. The old data stays until the new one is complete.
   * Does nothing while an upgrade is running. After one that failed, it is repeated.
   */
  start(): Promise<Outcome>;
}
