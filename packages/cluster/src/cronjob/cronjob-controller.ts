import { CronJob, Job } from "@keelson/api-machinery/kinds";
import { type ControllerDefinition, defineController, readOf } from "@keelson/controller";
import { byController, controllerIndex } from "../workload/ownership.ts";
import { applyDecision } from "../workload/perform-writes.ts";
import { decideCronJob } from "./cronjob-decision.ts";

/** Creates the Jobs of a CronJob at their scheduled times. */
export const cronJobController: ControllerDefinition = defineController({
  name: "cronjob",
  for: CronJob,
  owns: [Job],
  reads: [readOf(Job, { [controllerIndex]: byController })],
  maxConcurrentReconciles: 5,
  async reconcile(request, context) {
    const { cache, clock } = context;
    const cronJob = cache.get(CronJob, request);
    if (cronJob === undefined) return undefined;
    const jobs = cache.list(Job, { index: [controllerIndex, cronJob.metadata.uid ?? ""] });
    return await applyDecision(decideCronJob({ cronJob, jobs }, clock.now()), context);
  },
});
