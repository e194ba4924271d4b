import { join } from "node:path";
import type { Clock } from "@keelson/api-machinery";
import type { Local } from "../local/start-local.ts";
import { aborted } from "../shutdown.ts";
import { createLiveView } from "./live-view.ts";
import { runRobotsTour, startTourRobots } from "./robots.ts";

/** Options of {@link runTour}. */
export interface TourOptions {
  readonly local: Local;
  readonly clock: Clock;
  readonly out: NodeJS.WriteStream;
  readonly signal: AbortSignal;
  /** Keeps the robots running after the tour, until the signal fires. */
  readonly keepRunning: boolean;
}

/** Runs one real workload and shows it live. Answers whether it succeeded. */
export async function runTour(options: TourOptions): Promise<boolean> {
  const { local, clock, out, signal } = options;
  const broker = local.endpoints.mqtt;
  if (broker === undefined)
    throw new Error("the tour needs the robots: start `keelson up` without --only, or with robots among it");
  const dir = join(local.dataDir, "tour");
  const robots = startTourRobots({ brokerUrl: broker, tokenFile: join(local.dataDir, "robots", "join-token"), dir });
  try {
    out.write("\ntour: a Job on two robots (examples/robots/hello.yaml)\n\n");
    const view = createLiveView(out, clock);
    const result = await runRobotsTour({ client: local.client, clock, signal, onRows: (rows) => view.update(rows) });
    view.finish();
    if (result.output)
      out.write(`\noutput of task ${result.output.task}:\n${result.output.text.replace(/^/gm, "  ").trimEnd()}\n`);
    out.write(`\n${result.summary}\n`);
    if (!options.keepRunning) return result.succeeded;
    out.write(`\nKeelson keeps running, and so do the robots. In another terminal:\n
  export KUBECONFIG=${local.kubeconfig}
  kubectl get rjob,rtg,rtask,rb
  kubectl explain rjob.spec --api-version=robot.k8s4r.io/v1alpha1\n
Ctrl-C stops everything.\n`);
    await Promise.race([aborted(signal), local.failed]);
    return result.succeeded;
  } finally {
    await robots.stop();
  }
}
