/** API group of the family. */
export const group = "openrhino.org";

/** Its stored version. */
export const version = "v1alpha2";

/** The version before it, still served: the same objects. */
export const earlierVersion = "v1alpha1";

/** Labels on the Pods of a RhinoJob. */
export const labels = {
  /** Name of the RhinoJob, shortened where it is longer than a label may be. */
  app: "app",
  /** `launcher` or `worker`. */
  type: "type",
  /** uid of the RhinoJob. */
  uid: "rhinoID",
} as const;

/** Names of the containers. */
export const containerNames = { launcher: "rhino-mpi-launcher", worker: "rhino-mpi-worker" } as const;

/** Key of the token in a job's Secret. */
export const tokenKey = "token";
