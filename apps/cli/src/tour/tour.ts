import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery/time";
import type { Client } from "@keelson/client";
import { aborted } from "@keelson/controller/shutdown";
import { findProgram } from "../local/find-program.ts";
import type { Local } from "../local/start-local.ts";
import type { FamilyTour, TourContext, TourResult } from "./family-tour.ts";
import { createLiveView, type Row } from "./live-view.ts";
import { middlewareTour } from "./middleware.ts";
import { mpiTour } from "./mpi.ts";
import { robotsTour } from "./robots.ts";
import { sandboxesTour } from "./sandboxes.ts";
import { testplaneTour } from "./testplane.ts";

/** Options of {@link runTour}. */
export interface TourOptions {
  readonly local: Local;
  /** Has all permissions. */
  readonly client: Client;
  /** Names of the running operators. */
  readonly families: readonly string[];
  readonly clock: Clock;
  readonly out: NodeJS.WriteStream;
  readonly signal: AbortSignal;
  /** Keep everything running after the tour until the signal aborts. */
  readonly keepRunning: boolean;
}

/** All parts, in display order. */
const tours: readonly FamilyTour[] = [robotsTour, middlewareTour, testplaneTour, mpiTour, sandboxesTour];

/** Runs one real workload per operator concurrently and shows their progress. Resolves to whether all succeeded. */
export async function runTour(options: TourOptions): Promise<boolean> {
  const { local, out, signal } = options;
  const parts = tours.filter((tour) => options.families.includes(tour.family));
  if (parts.length === 0)
    throw new Error("the tour needs at least one operator: start `keelson up` without --only, or name an operator in it");
  const missing = parts.map((tour) => ({
    tour,
    programs: tour.needs.filter(({ program }) => findProgram(program) === undefined),
  }));
  const ready = missing.filter(({ programs }) => programs.length === 0).map(({ tour }) => tour);

  out.write("\ntour:\n");
  for (const { tour, programs } of missing) {
    const packages = programs.map((each) => each.package).join(" ");
    out.write(`  ${tour.family.padEnd(10)}  ${programs.length === 0 ? tour.title : `skipped: apt-get install ${packages}`}\n`);
  }
  out.write("\n");

  const view = createLiveView(out, options.clock);
  const rows = new Map<string, readonly Row[]>(ready.map((tour) => [tour.family, []]));
  const show = (tour: FamilyTour, next: readonly Row[]): void => {
    rows.set(
      tour.family,
      next.map((row) => ({ ...row, key: `${tour.family}/${row.key}` })),
    );
    view.update([...rows.values()].flat());
  };
  const contexts = ready.map((tour) => contextOf(tour, options, (next) => show(tour, next)));
  const prepared = ready.map((tour, index) => tour.prepare?.(contexts[index] ?? contextOf(tour, options, () => {})));
  try {
    const results = await Promise.all(
      ready.map((tour, index) => runOne(tour, contexts[index] ?? contextOf(tour, options, () => {}))),
    );
    signal.throwIfAborted();
    view.finish();
    for (const { output } of results) {
      if (output) out.write(`\noutput of ${output.title}:\n${output.text.trimEnd().replace(/^/gm, "  ")}\n`);
    }
    out.write("\n");
    for (const { summary } of results) out.write(`${summary}\n`);
    const succeeded = results.every((result) => result.succeeded);
    if (!options.keepRunning) return succeeded;
    out.write(`\nKeelson keeps running. In another terminal:\n
  export KUBECONFIG=${local.kubeconfig}
  kubectl get rjob,rtg,rtask,rb          # and it, rhinojobs, sb, pods ...
  kubectl explain rjob.spec --api-version=robot.k8s4r.io/v1alpha1\n
Ctrl-C stops Keelson and the workloads of the tour. Other Pods keep running until you delete them.\n`);
    await aborted(signal);
    return succeeded;
  } finally {
    await Promise.all(ready.map((tour, index) => cleanUp(tour, contexts[index])));
    for (const each of prepared) await each?.stop();
  }
}

/** Limit on the clean-up of each part. */
const cleanUpTimeoutMs = 20_000;

async function cleanUp(tour: FamilyTour, context: TourContext | undefined): Promise<void> {
  if (context === undefined) return;
  // The tour's own signal may already be aborted.
  await tour.cleanUp?.({ ...context, signal: AbortSignal.timeout(cleanUpTimeoutMs) }).catch((error: unknown) => {
    process.stderr.write(`${tour.family}: clean-up failed: ${error instanceof Error ? error.message : String(error)}\n`);
  });
}

function contextOf(
  tour: FamilyTour,
  { local, client, clock, signal }: TourOptions,
  show: (rows: readonly Row[]) => void,
): TourContext {
  const dir = join(local.dataDir, "tour", tour.family);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const { dataDir, kubeconfig, endpoints } = local;
  return { client, clock, dataDir, dir, kubeconfig, endpoints, signal, show };
}

/** Runs one part. A failure becomes its result, so that the other parts continue. */
async function runOne(tour: FamilyTour, context: TourContext): Promise<TourResult> {
  try {
    return await tour.run(context);
  } catch (error) {
    if (context.signal.aborted) return { succeeded: false, summary: `${tour.family}: stopped` };
    return { succeeded: false, summary: `${tour.family}: failed: ${error instanceof Error ? error.message : String(error)}` };
  }
}
