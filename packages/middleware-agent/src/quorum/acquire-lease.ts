import { type Clock, sleep } from "@keelson/api-machinery/time";
import type { FailoverOrder } from "../engine.ts";
import { standDelayMs } from "./candidacy.ts";
import { mayWrite, type Promised, renewedAt } from "./lease.ts";
import type { LeaseKeeper } from "./lease-keeper.ts";

/** The epoch of a lease, or why it was not granted. */
export type Acquired = Awaited<ReturnType<NonNullable<FailoverOrder["beforePromotion"]>>>;

/** How a Pod that the controller chose requests the lease. */
export interface Acquisition {
  readonly minEpoch: number;
  /** The previous holder, which accepts no more writes. */
  readonly over: Promised | undefined;
  /** Requests the leases. Resolves to the reasons of refusals. */
  readonly ask: () => Promise<readonly string[]>;
}

const maxAttempts = 4;

/** Collects the leases of a majority for a Pod that the controller chose. Without them, all that were granted are released. */
export async function acquireLease(
  keeper: LeaseKeeper,
  { clock, random }: { readonly clock: Clock; readonly random: () => number },
  { minEpoch, over, ask }: Acquisition,
): Promise<Acquired> {
  let reasons = "";
  for (let attempt = 0; attempt < maxAttempts; attempt++) {
    if (attempt > 0) await sleep(clock, standDelayMs(keeper.state, random()));
    keeper.stand(over, true, minEpoch);
    reasons = (await ask()).join("; ");
    const { tenure } = keeper.state;
    const isHeld = renewedAt(keeper.state) !== undefined && mayWrite(keeper.state, keeper.now());
    if (tenure !== undefined && isHeld) return { ok: true, epoch: tenure.epoch };
    await keeper.release();
  }
  return { ok: false, error: `a majority of the agents did not grant the lease: ${reasons}` };
}
