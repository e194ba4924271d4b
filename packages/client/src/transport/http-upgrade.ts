import type { Duplex } from "node:stream";
import type { Dispatcher } from "undici";
import { statusErrorOf } from "./response-status.ts";
import { TransportError } from "./transport-error.ts";

/** A connection that was switched to another protocol. */
export interface UpgradedConnection {
  readonly socket: Duplex;
  /** Headers of the response, with names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** Options of {@link upgradeConnection}. */
export interface UpgradeOptions {
  readonly origin: string;
  /** With its query. */
  readonly path: string;
  readonly headers: Record<string, string | string[]>;
  /** Value of the header `Upgrade`. */
  readonly protocol: string;
  readonly signal?: AbortSignal | undefined;
}

/** Maximum length of an error response that is read. */
const maxErrorLength = 64 * 1024;

/**
 * Requests a protocol upgrade (RFC 9110, section 7.8).
 *
 * **Errors**: a StatusError if the server rejects it; the signal's reason; an error of undici if there is no response.
 */
export function upgradeConnection(dispatcher: Dispatcher, options: UpgradeOptions): Promise<UpgradedConnection> {
  const { origin, path, headers, protocol, signal } = options;
  return new Promise((resolve, reject) => {
    let rejection: { readonly code: number; readonly isJson: boolean; text: string } | undefined;
    let stop = (): void => {};
    const settle = (act: () => void): void => {
      signal?.removeEventListener("abort", stop);
      act();
    };
    dispatcher.dispatch(
      { origin, path, method: "GET", headers, upgrade: protocol },
      {
        onRequestStart(controller) {
          stop = () =>
            controller.abort(
              signal?.reason instanceof Error ? signal.reason : new TransportError("Closed", "the request was aborted"),
            );
          if (signal?.aborted) stop();
          else signal?.addEventListener("abort", stop, { once: true });
        },
        onRequestUpgrade: (_controller, _code, responseHeaders, socket) =>
          settle(() => resolve({ socket, headers: responseHeaders })),
        onResponseStart(_controller, code, responseHeaders) {
          rejection = { code, isJson: String(responseHeaders["content-type"]).startsWith("application/json"), text: "" };
        },
        onResponseData(_controller, chunk) {
          if (rejection !== undefined && rejection.text.length < maxErrorLength) rejection.text += chunk.toString("utf8");
        },
        onResponseEnd() {
          const { code = 0, isJson = false, text = "" } = rejection ?? {};
          settle(() => reject(statusErrorOf(code, isJson ? parsed(text) : text, `upgrade ${path} to ${protocol}`)));
        },
        onResponseError: (_controller, error) => settle(() => reject(signal?.aborted ? signal.reason : error)),
      },
    );
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
