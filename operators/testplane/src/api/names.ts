/** API group of the testplane kinds. */
export const group = "infra.testplane.io";

/** API version of the testplane kinds. */
export const version = "v1alpha1";

/** Finalizers of tests. They are held until the changes to adopted objects are reverted. */
export const finalizers = {
  integrationTest: "infra.testplane.io/integrationtest-finalizer",
  loadTest: "infra.testplane.io/loadtest-finalizer",
} as const;

/** Field managers of test statuses and of the resources that tests apply. */
export const fieldManagers = {
  integrationTest: "integrationtest-controller",
  loadTest: "loadtest-controller",
} as const;

/** Annotation of a test that runs one round of another spec: that spec, as JSON. */
export const wholeSpecAnnotation = "infra.testplane.io/whole-spec";

/** Prefix of the annotations that carry injected values, as in `testplane.io/inject-target-host`. */
export const injectPrefix = "testplane.io/inject-";
