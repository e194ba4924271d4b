import { systemClock } from "@keelson/api-machinery/time";
import { serveApi, systemRandom } from "@keelson/apiserver";
import { startTestCluster, type TestCluster } from "@keelson/cluster/testing";
import { sandboxes } from "../operator.ts";

/** Starts a cluster below `dir` with the family's CRDs but without the operator, on the data of an earlier one if there is any. */
export function startLocalCluster(dir: string): Promise<TestCluster> {
  return startTestCluster({
    serve: (options) => serveApi({ ...options, clock: systemClock, random: systemRandom, port: 0 }),
    dataDir: dir,
    crds: sandboxes.resources.map(({ crd }) => crd),
  });
}
