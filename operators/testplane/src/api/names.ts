/** API group of the family. */
export const group = "infra.testplane.io";

/** Its version. */
export const version = "v1alpha1";

/** Finalizers: held until what a test changed and did not make is given back. */
export const finalizers = {
  integrationTest: "infra.testplane.io/integrationtest-finalizer",
  loadTest: "infra.testplane.io/loadtest-finalizer",
} as const;

/** Field managers, of statuses and of the resources that tests apply. */
export const fieldManagers = {
  integrationTest: "integrationtest-controller",
  loadTest: "loadtest-controller",
} as const;

/** On workloads, with the name of the value behind it: `testplane.io/inject-target-host`. */
export const injectPrefix = "testplane.io/inject-";
