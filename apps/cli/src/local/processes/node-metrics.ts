import { request } from "node:http";
import { text } from "node:stream/consumers";
import { statusError } from "@keelson/api-machinery";
import type { MetricsSource } from "@keelson/apiserver";
import { type MetricsObjects, resourceMetricsPath } from "@keelson/cluster/api-server";

/** Reads resource usage from the kubelet's Unix socket. While no kubelet listens, requests fail with 503. */
export function nodeMetrics(socketPath: string): MetricsSource {
  const read = (): Promise<MetricsObjects> =>
    new Promise((resolve, reject) => {
      const outgoing = request({ socketPath, path: resourceMetricsPath, agent: false }, (response) => {
        text(response).then((body) => resolve(JSON.parse(body) as MetricsObjects), reject);
      });
      outgoing.on("error", (error) =>
        reject(statusError("ServiceUnavailable", `the kubelet is not reachable: ${error.message}`)),
      );
      outgoing.end();
    });
  return {
    nodeMetrics: async () => (await read()).nodes,
    podMetrics: async () => (await read()).pods,
  };
}
