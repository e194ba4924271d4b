import { isLongRunning } from "../flowcontrol/flow-controller.ts";
import { badRequest } from "./errors.ts";
import type { RequestInfo } from "./request-info.ts";

/**
 * Checks the Go duration that clients may send as `timeout`. It has no other effect. Long-running requests have no deadline: the parameter
 * may be one of a proxy's target.
 */
export function requireTimeout(info: RequestInfo, timeout: string | undefined): void {
  if (timeout === undefined || timeout === "" || isLongRunning(info)) return;
  if (/^[-+]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/.test(timeout)) return;
  const shown = JSON.stringify(timeout);
  const why = /^[-+]?\d+$/.test(timeout) ? `missing unit in duration ${shown}` : `invalid duration ${shown}`;
  throw badRequest(`invalid timeout specified in the request URL - time: ${why}`);
}

/** Rejects names that cannot be a segment of a path. */
export function requirePathSegment(name: string): void {
  const problem =
    name === "." || name === ".." ? `may not be '${name}'` : name.includes("%") ? "may not contain '%'" : undefined;
  if (problem !== undefined) throw badRequest(`Name parameter invalid: ${JSON.stringify(name)}: ${problem}`);
}
