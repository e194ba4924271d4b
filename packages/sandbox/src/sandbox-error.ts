import { Code, ConnectError } from "@connectrpc/connect";

/** Codes of a {@link SandboxError}. */
export type SandboxErrorCode =
  /** No agent of the pool has a free slot; see `retryAfterMs`. */
  | "PoolFull"
  | "NotFound"
  | "AlreadyExists"
  /** A field is invalid; the message names it. */
  | "InvalidArgument"
  /** The sandbox does not run, or a file is not of the required kind. */
  | "FailedPrecondition"
  /** The token is missing or wrong. */
  | "Unauthenticated"
  | "PermissionDenied"
  /** A limit is reached, such as that of a disk, of processes or of kept output. */
  | "ResourceExhausted"
  /** A command did not exit within its `timeoutMs`. */
  | "TimedOut"
  /** The server could not be reached. */
  | "Unavailable"
  /** A command with `check` exited with another status than 0. */
  | "CommandFailed"
  /** Output that was not read in time is no longer available. */
  | "OutputLost"
  | "Internal";

/** A call failed. The `cause` is the error of the transport. */
export class SandboxError extends Error {
  override readonly name = "SandboxError";
  readonly code: SandboxErrorCode;
  /** When a retry may succeed, in milliseconds from now, if the server knows. */
  readonly retryAfterMs: number | undefined;

  constructor(code: SandboxErrorCode, message: string, options?: ErrorOptions & { readonly retryAfterMs?: number }) {
    super(message, options);
    this.code = code;
    this.retryAfterMs = options?.retryAfterMs;
  }
}

/** Whether an error is a {@link SandboxError}, of one of the given codes if there are any. */
export function isSandboxError(error: unknown, ...codes: readonly SandboxErrorCode[]): error is SandboxError {
  return error instanceof SandboxError && (codes.length === 0 || codes.includes(error.code));
}

const codes: Partial<Record<Code, SandboxErrorCode>> = {
  [Code.NotFound]: "NotFound",
  [Code.AlreadyExists]: "AlreadyExists",
  [Code.InvalidArgument]: "InvalidArgument",
  [Code.OutOfRange]: "InvalidArgument",
  [Code.FailedPrecondition]: "FailedPrecondition",
  [Code.Aborted]: "FailedPrecondition",
  [Code.Unauthenticated]: "Unauthenticated",
  [Code.PermissionDenied]: "PermissionDenied",
  [Code.ResourceExhausted]: "ResourceExhausted",
  [Code.DeadlineExceeded]: "TimedOut",
  [Code.Unavailable]: "Unavailable",
};

/** Trailer by which gRPC servers ask clients to wait before a retry, in milliseconds. */
const retryHeader = "grpc-retry-pushback-ms";

/** The error of a call as a {@link SandboxError}; the reason of `signal` if it has aborted. */
export function toSandboxError(error: unknown, signal?: AbortSignal): unknown {
  if (signal?.aborted) return signal.reason;
  if (error instanceof SandboxError) return error;
  if (!(error instanceof ConnectError)) return new SandboxError("Internal", String(error), { cause: error });
  const retryAfterMs = Number(error.metadata.get(retryHeader) ?? Number.NaN);
  return new SandboxError(codes[error.code] ?? "Internal", error.rawMessage, {
    cause: error,
    ...(Number.isFinite(retryAfterMs) && { retryAfterMs }),
  });
}

/** Runs a call and rejects with a {@link SandboxError}, or the reason of `signal`. */
export async function call<T>(signal: AbortSignal | undefined, run: () => Promise<T>): Promise<T> {
  try {
    signal?.throwIfAborted();
    return await run();
  } catch (error) {
    throw toSandboxError(error, signal);
  }
}

/** Runs a streaming call, as {@link call} does. */
export async function* callStream<T>(signal: AbortSignal | undefined, run: () => AsyncIterable<T>): AsyncGenerator<T> {
  try {
    signal?.throwIfAborted();
    yield* run();
  } catch (error) {
    throw toSandboxError(error, signal);
  }
}
