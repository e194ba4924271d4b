import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import type { Row } from "./live-view.ts";

/** What a family's part of the tour runs with. */
export interface TourContext {
  /** May do everything. */
  readonly client: Client;
  readonly clock: Clock;
  /** The data folder of `keelson up`. */
  readonly dataDir: string;
  /** A folder of this part's own. */
  readonly dir: string;
  readonly kubeconfig: string;
  /** Addresses of the operators' servers, by name. */
  readonly endpoints: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  /** Shows these rows as the family's part of the live view. */
  readonly show: (rows: readonly Row[]) => void;
}

/** How a family's part ended. */
export interface TourResult {
  readonly succeeded: boolean;
  /** One line with this run's figures: how it ended. */
  readonly summary: string;
  /** Something that a program of the workload printed, under a title. */
  readonly output?: { readonly title: string; readonly text: string };
}

/** A family's part of the tour: one real workload from its example, shown until it has ended. */
export interface FamilyTour {
  /** The operator's name; the part runs where that operator does. */
  readonly family: string;
  /** What is shown, in one line. */
  readonly title: string;
  /** Programs without which the part is skipped, and the Debian packages that bring them. */
  readonly needs: readonly { readonly program: string; readonly package: string }[];
  /** Starts what stays for as long as the tour does (robots). */
  prepare?(context: TourContext): { stop(): Promise<void> };
  run(context: TourContext): Promise<TourResult>;
  /** Removes what runs on after {@link run}, when the tour ends: Pods and sandboxes outlive `keelson up`. */
  cleanUp?(context: TourContext): Promise<void>;
}
