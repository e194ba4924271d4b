import { expect } from "vitest";
import { annotations } from "../api/names.ts";
import { createSimulation, type Simulation } from "./simulation.ts";

/** Components with one group of this size. */
export const nodes = (part: object) => [{ name: "redis", groups: [{ name: "nodes", ...part }] }];
/** Storage of the simulated App. */
export const size = { storage: { size: "64Mi" } };
/** Spec of the simulated App. */
export const spec = {
  plugin: { name: "redis", version: "1.0.0" },
  runtime: { name: "redis", version: "7.0" },
  config: { maxmemory: "64mb", databases: "16" },
  components: nodes({ replicas: 3, ...size }),
};
/** A change of a parameter without a restart. */
export const hot = (maxmemory: string) => ({ config: { maxmemory, databases: "16" } });
/** A change of a parameter that needs a restart. */
export const coldChange = { config: { maxmemory: "64mb", databases: "32" } };

/** A simulation with a running App. */
export async function provisioned(plugin?: (document: string) => string, more: object = {}): Promise<Simulation> {
  const simulation = createSimulation(plugin ? { plugin } : {});
  simulation.create({ ...spec, ...more });
  await simulation.run();
  expect(simulation.status().phase).toBe("Running");
  return simulation;
}

/** Tasks of the current plan. */
export const tasksOf = ({ status }: Simulation) =>
  (status().plan?.tasks ?? []).map(({ taskId, type, status: state, reason }) => ({ taskId, type, state, reason }));
/** Results of the last control annotations. */
export const results = ({ store }: Simulation): readonly { taskId: string; result: string }[] =>
  JSON.parse(store.get("App", "cache")?.metadata.annotations?.[annotations.controlResult] ?? '{"results":[]}').results;
/** Annotations of the App. */
export const annotationsOf = ({ store }: Simulation) => store.get("App", "cache")?.metadata.annotations ?? {};
/** Ordinals of the Pods started since a command. */
export const hasRestarted = (simulation: Simulation, from: number) =>
  simulation.redis.commands
    .slice(from)
    .filter((each) => each.command === "starts")
    .map((each) => each.pod.slice(-1));
