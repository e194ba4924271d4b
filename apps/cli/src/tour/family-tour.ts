import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Row } from "./live-view.ts";

/** Services of one part of the tour. */
export interface TourContext {
  /** Has all permissions. */
  readonly client: Client;
  readonly clock: Clock;
  /** The data directory of `keelson up`. */
  readonly dataDir: string;
  /** A directory for this part only. */
  readonly dir: string;
  readonly kubeconfig: string;
  /** Addresses of the operators' servers, by name. */
  readonly endpoints: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Replaces this part's rows in the live view. */
  readonly show: (rows: readonly Row[]) => void;
}

/** The outcome of one part of the tour. */
export interface TourResult {
  readonly succeeded: boolean;
  /** One line: the outcome and the figures of this run. */
  readonly summary: string;
  /** Output of a program of the workload. */
  readonly output?: { readonly title: string; readonly text: string };
}

/** One part of the tour: a real workload from an operator's examples, shown until it has ended. */
export interface FamilyTour {
  /** The operator's name. The part is skipped if the operator does not run. */
  readonly family: string;
  /** One line that describes the workload. */
  readonly title: string;
  /** Required programs and their Debian packages. The part is skipped if one is missing. */
  readonly needs: readonly { readonly program: string; readonly package: string }[];
  /** Starts processes that run for the whole tour, such as robots. */
  prepare?(context: TourContext): { stop(): Promise<void> };
  run(context: TourContext): Promise<TourResult>;
  /** Deletes what still runs after {@link run}: Pods and sandboxes outlive `keelson up`. */
  cleanUp?(context: TourContext): Promise<void>;
}
