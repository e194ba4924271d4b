import { statusError } from "@keelson/api-machinery";
import { serviceAccountUser, splitServiceAccountUser } from "../auth/authentication/service-account.ts";

/** Maximum number of open log, exec, attach, port-forward and proxy requests of a user. */
const maxStreams = 128;

/**
 * Limits how many requests to `log`, `exec`, `attach`, `portforward` and `proxy` a user has open, because each occupies connections and
 * processes for as long as its client wants. The service accounts of a namespace count as one user, because a user who may create one may create many.
 */
export class StreamLimit {
  readonly #open = new Map<string, number>();

  /**
   * Counts a request until the returned function is called.
   *
   * **Errors**: `TooManyRequests` if the user has as many open as allowed.
   */
  open(username: string): () => void {
    const namespace = splitServiceAccountUser(username)?.namespace;
    const user = namespace === undefined ? username : serviceAccountUser({ namespace, name: "" });
    const count = this.#open.get(user) ?? 0;
    if (count >= maxStreams) {
      const owner =
        namespace === undefined ? `user ${JSON.stringify(username)}` : `the service accounts of namespace ${namespace}`;
      throw statusError(
        "TooManyRequests",
        `${owner} may have at most ${maxStreams} log, exec, attach, port-forward and proxy requests open`,
        {
          retryAfterSeconds: 1,
        },
      );
    }
    this.#open.set(user, count + 1);
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      const left = (this.#open.get(user) ?? 1) - 1;
      if (left === 0) this.#open.delete(user);
      else this.#open.set(user, left);
    };
  }
}
