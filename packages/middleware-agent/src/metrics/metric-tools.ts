import type { ServiceImpl } from "@connectrpc/connect";
import type { ToolInvoker } from "../agent2.generated.ts";
import type { MiddlewareEngine } from "../engine.ts";

/** The method that serves the metrics of a program; none if the engine has no metrics. */
export function createMetricTools(
  program: Pick<MiddlewareEngine, "metrics">,
): Partial<Pick<ServiceImpl<typeof ToolInvoker>, "metrics">> {
  const read = program.metrics?.bind(program);
  if (read === undefined) return {};
  return {
    async metrics() {
      const families = await read();
      return {
        families: families.map(({ name, help, type, samples }) => ({
          ...{ name, help, type },
          samples: samples.map(({ labels, value }) => ({ labels: { ...labels }, value })),
        })),
      };
    },
  };
}
