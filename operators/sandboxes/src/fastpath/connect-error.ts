import { Code, ConnectError } from "@connectrpc/connect";
import { isStatusError } from "@keelson/api-machinery";

const codes: Readonly<Record<number, Code>> = {
  400: Code.InvalidArgument,
  401: Code.Unauthenticated,
  403: Code.PermissionDenied,
  404: Code.NotFound,
  409: Code.Aborted,
  422: Code.InvalidArgument,
  429: Code.ResourceExhausted,
};

/** An error of the API as the error of a call. */
export function connectError(error: unknown): ConnectError {
  if (error instanceof ConnectError) return error;
  if (isStatusError(error)) return new ConnectError(error.message, codes[error.status.code ?? 500] ?? Code.Unavailable);
  return new ConnectError(error instanceof Error ? error.message : String(error), Code.Unavailable);
}

/** The message of an error, without the code that {@link ConnectError} adds to it. */
export function messageOf(error: unknown): string {
  if (error instanceof ConnectError) return error.rawMessage;
  return error instanceof Error ? error.message : String(error);
}
