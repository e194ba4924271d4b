import { UsageError } from "@keelson/operator/flags";

/**
 * Checks `--expire-time`. A time that has passed would end the sandbox immediately, and is most often a number of seconds from now.
 *
 * **Errors**: {@link UsageError}.
 */
export function checkExpireTime(seconds: number | undefined, nowMs: number): void {
  if (seconds === undefined || seconds === 0 || seconds * 1000 > nowMs) return;
  const past = new Date(seconds * 1000).toISOString();
  throw new UsageError(
    `--expire-time: ${seconds} is ${past}, which is in the past: must be Unix seconds, or 0; keelson sandbox renew NAME --expire-in counts from now`,
  );
}
