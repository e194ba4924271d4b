/** API group of the MPI kinds. */
export const group = "openrhino.org";

/** Stored version. */
export const version = "v1alpha2";

/** Earlier version, still served with the same schema. */
export const earlierVersion = "v1alpha1";

/** Labels of a RhinoJob's Pods. */
export const labels = {
  /** Name of the RhinoJob, shortened to a valid label value. */
  app: "app",
  /** `launcher` or `worker`. */
  type: "type",
  /** uid of the RhinoJob. */
  uid: "rhinoID",
} as const;

/** Annotation that ends a job with the reason `Cancelled` if it is `true`. */
export const cancelAnnotation = "openrhino.org/cancel";

/** Container names. */
export const containerNames = { launcher: "rhino-mpi-launcher", worker: "rhino-mpi-worker" } as const;

/** Key of the token in a job's Secret. */
export const tokenKey = "token";
