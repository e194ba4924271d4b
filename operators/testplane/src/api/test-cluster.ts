import { listMap } from "@keelson/api-machinery/fields";
import { Type, type Static } from "typebox";

const TestCluster = Type.Object({
  name: Type.String({
    description: "Name of the cluster in this test.",
    pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    maxLength: 63,
  }),
  kubeconfigSecret: Type.Object(
    {
      name: Type.String({ description: "Name of the Secret.", minLength: 1, maxLength: 253 }),
      key: Type.Optional(Type.String({ description: "Key in the Secret. Default: kubeconfig.", minLength: 1, maxLength: 253 })),
    },
    {
      description:
        "Secret in the test's namespace with a kubeconfig. Its current context is used. Certificates and credentials must be inline.",
    },
  ),
  namespace: Type.Optional(
    Type.String({
      description: "Namespace of objects in this cluster that name none. Default: default.",
      minLength: 1,
      maxLength: 63,
    }),
  ),
});
/** Another cluster that steps of a test act on. */
export type TestCluster = Static<typeof TestCluster>;

/** Schema of the clusters of a test. */
export const testClusters = Type.Array(TestCluster, {
  ...listMap("name", "Other clusters, which steps select by name."),
  maxItems: 8,
});

/** Schema of the cluster of a step. */
export const clusterName = Type.String({
  description: "Name of the cluster, one of spec.clusters. Default: the cluster of the test.",
  minLength: 1,
  maxLength: 63,
});
