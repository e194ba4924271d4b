/**
 * Why a container is not started. Except for `NotRunning`, these are the reasons that the kubelet shows in the container's status.
 *
 * - `StartError`: the executable is missing or cannot be executed; the attempt counts as terminated.
 * - `ErrImagePull`: the pull failed and is retried with backoff.
 * - `NotRunning`: a command was to run in a container that is not running.
 */
export type ContainerErrorCode =
  | "CreateContainerConfigError"
  | "CreateContainerError"
  | "StartError"
  | "ErrImagePull"
  | "ErrImageNeverPull"
  | "InvalidImageName"
  | "NotRunning";

/** A container cannot be started. The message is shown in its status. */
export class ContainerError extends Error {
  override readonly name = "ContainerError";
  readonly code: ContainerErrorCode;
  /** The exit code of the attempt, for `StartError`. */
  readonly exitCode: number | undefined;

  constructor(code: ContainerErrorCode, message: string, options?: ErrorOptions & { readonly exitCode?: number }) {
    super(message, options);
    this.code = code;
    this.exitCode = options?.exitCode;
  }
}

/** Whether an error is a {@link ContainerError}. */
export function isContainerError(error: unknown): error is ContainerError {
  return error instanceof ContainerError;
}

/** The error of an invalid container configuration. */
export function configError(message: string): ContainerError {
  return new ContainerError("CreateContainerConfigError", message);
}
