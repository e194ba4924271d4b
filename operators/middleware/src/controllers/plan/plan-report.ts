import type { DeepReadonly } from "@keelson/api-machinery";
import type { ChangeTask, Plan } from "../../api/app.ts";
import type { Disruptions } from "../../api/parts.ts";
import { addDisruptions } from "../group/count-disruptions.ts";
import { suppressed } from "./suppress-tasks.ts";

/** Outcome of tasks that have all finished. */
export function outcomeOf(tasks: readonly ChangeTask[]): NonNullable<Plan["outcome"]> {
  const relevant = tasks.filter((task) => task.reason !== suppressed);
  if (relevant.length > 0 && relevant.every((task) => task.status === "done")) return "Succeeded";
  return relevant.some((task) => task.status === "failed") ? "Failed" : "Cancelled";
}

/** Compares the prediction with the counts of the Groups. */
export function reportOf(tasks: readonly ChangeTask[]): NonNullable<Plan["report"]> {
  const relevant = tasks.filter((task) => task.reason !== suppressed);
  const observed = relevant.reduce((sum, task) => addDisruptions(sum, task.observed), addDisruptions());
  if (relevant.some((task) => task.predicted === undefined)) return { observed };
  const predicted = relevant.reduce((sum, task) => addDisruptions(sum, task.predicted), addDisruptions());
  const { restarts, switchovers } = observed;
  const asPredicted = restarts === predicted.restarts && switchovers === predicted.switchovers;
  return { predicted, observed, ...(outcomeOf(tasks) === "Succeeded" ? { asPredicted } : {}) };
}

/** What a finished plan did to Pods, next to what was predicted. */
export function describeReport({ predicted, observed }: DeepReadonly<NonNullable<Plan["report"]>>): string {
  const show = ({ restarts, switchovers, failovers = 0 }: DeepReadonly<Disruptions>): string =>
    `restarts ${restarts}, switchovers ${switchovers}${failovers > 0 ? `, failovers ${failovers}` : ""}`;
  return `${show(observed)} (predicted: ${predicted === undefined ? "unknown" : show(predicted)})`;
}
