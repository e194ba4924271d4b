import { statusError } from "@keelson/api-machinery";
import type { Call } from "../call.ts";
import { pauseIfLarge } from "../pause.ts";
import { receiveError } from "./unreadable-body.ts";

/** Maximum size of a body. Same as kube-apiserver. */
const maxBodyBytes = 3 * 1024 * 1024;

/**
 * Reads the body of a call, which happens only here: after authorization and for a resource and verb that exist.
 *
 * **Errors**: `RequestEntityTooLarge`, and those of an unreadable body.
 */
export function receiveBody(call: Call): void | Promise<void> {
  const { request, resource } = call;
  const receiving = request.receive?.(resource.origin === "builtin");
  if (receiving === undefined) return admitBody(call);
  return receiving.then(
    () => admitBody(call),
    (error: unknown) => Promise.reject(receiveError(call, error)),
  );
}

/** Checks the size of the body. A large one is left to the next turn. */
function admitBody(call: Call): void | Promise<void> {
  const { request, load } = call;
  const { bodyBytes = 0 } = request;
  if (bodyBytes > maxBodyBytes) {
    throw statusError("RequestEntityTooLarge", `limit is ${maxBodyBytes} bytes; the request's body is ${bodyBytes} bytes`);
  }
  load.bytes = bodyBytes;
  request.audit?.receive(request.body, call.info.verb === "patch");
  return pauseIfLarge(call);
}
