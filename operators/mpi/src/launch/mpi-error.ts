/** What went wrong; see {@link MpiError}. */
export type MpiErrorCode =
  /** mpiexec wants a remote shell to run more than a program with arguments. */
  | "InvalidLaunchLine"
  /** The directory of checkpoints cannot be created, or the command before a restart failed. */
  | "CheckpointFailed"
  /** A variable of a Pod's program is missing or invalid. */
  | "InvalidEnvironment"
  /** The program is linked with another MPI than the requested one. */
  | "MpiMismatch"
  /** No suitable mpiexec is installed. */
  | "MpiexecNotFound"
  /** The cluster does not have the PodGroups of `--gang-scheduling`. */
  | "PodGroupsUnknown"
  /** A PodGroup with the name of a job's belongs to something else. */
  | "PodGroupTaken"
  /** A pipe of the launcher could not be created. */
  | "PipeFailed";

/** Error of the programs in a RhinoJob's Pods. Recognise it by `code`. */
export class MpiError extends Error {
  override readonly name = "MpiError";
  readonly code: MpiErrorCode;

  constructor(code: MpiErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Whether an error is an {@link MpiError} with this code. */
export function isMpiError(error: unknown, code: MpiErrorCode): error is MpiError {
  return error instanceof MpiError && error.code === code;
}
