import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Ends of the paths of files that take longest, the longest first. A file that is not listed only starts later. */
const slowest: readonly string[] = [
  "e2e/cluster-install.e2e.test.ts",
  "src/postgres.e2e.test.ts",
  "e2e/api-server-crash.e2e.test.ts",
  "src/postgres-contract.e2e.test.ts",
  "launch/pod-program.e2e.test.ts",
  "e2e/kubectl-verbs.e2e.test.ts",
  "sandbox/attacks.e2e.test.ts",
  "e2e/install.e2e.test.ts",
  "e2e/runtimes.e2e.test.ts",
  "src/failover.e2e.test.ts",
  "src/kill.e2e.test.ts",
  "e2e/middleware.e2e.test.ts",
  "e2e/up.e2e.test.ts",
  "src/crash-stages.e2e.test.ts",
  "e2e/tutorials.e2e.test.ts",
  "e2e/families.e2e.test.ts",
  "e2e/mpi.e2e.test.ts",
  "e2e/testplane.e2e.test.ts",
  "containerd/containerd-crash.e2e.test.ts",
  "sandboxes/src/operator.e2e.test.ts",
  "src/conformance.e2e.test.ts",
  "e2e/robots.e2e.test.ts",
  "e2e/webhooks-page.e2e.test.ts",
  "src/backups.e2e.test.ts",
  "e2e/statefulset.e2e.test.ts",
  "e2e/testplane-examples.e2e.test.ts",
  "e2e/streams.e2e.test.ts",
  "e2e/pods.e2e.test.ts",
  "e2e/full-disk.e2e.test.ts",
  "e2e/storage.e2e.test.ts",
  "middleware/src/crashes.test.ts",
  "testplane/src/crash.test.ts",
  "robots/src/identity.test.ts",
  "read/list-in-slices.test.ts",
  "kubelet/crashes.test.ts",
  "testplane/src/commands/run.test.ts",
  "middleware/src/failover.test.ts",
  "maintenance/maintenance.test.ts",
  "testplane/src/steps.test.ts",
  "robots/src/rollouts.test.ts",
  "quorum/model.test.ts",
  "http/server/http-server.test.ts",
  "endpoints/pipeline.test.ts",
  "generator/requesters.test.ts",
  "write/large-objects.test.ts",
];

/** Starts the slowest files first, so that none runs alone at the end. */
export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const index = slowest.findIndex((end) => moduleId.endsWith(end));
      return index === -1 ? slowest.length : index;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
