import type { Duplex } from "node:stream";
import type { Dispatcher } from "undici";
import { statusErrorOf } from "./answer-status.ts";

/** A connection on which both ends speak another protocol from now on. */
export interface UpgradedConnection {
  readonly socket: Duplex;
  /** Of the server's answer; names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** What {@link upgradeConnection} sends. */
export interface UpgradeOptions {
  readonly origin: string;
  /** With its query. */
  readonly path: string;
  readonly headers: Record<string, string | string[]>;
  /** Value of the header `Upgrade`. */
  readonly protocol: string;
  readonly signal?: AbortSignal | undefined;
}

/** Longest text of a refusal that is read. */
const longestRefusal = 64 * 1024;

/**
 * Asks a server to change the protocol of a connection (RFC 9110, section 7.8). Rejects with a StatusError where the server
 * refuses, with the signal's reason where that fires first, and with what undici throws where no answer comes.
 */
export function upgradeConnection(dispatcher: Dispatcher, options: UpgradeOptions): Promise<UpgradedConnection> {
  const { origin, path, headers, protocol, signal } = options;
  return new Promise((resolve, reject) => {
    let refusal: { readonly code: number; readonly isJson: boolean; text: string } | undefined;
    let stop = (): void => {};
    const settle = (act: () => void): void => {
      signal?.removeEventListener("abort", stop);
      act();
    };
    dispatcher.dispatch(
      { origin, path, method: "GET", headers, upgrade: protocol },
      {
        onRequestStart(controller) {
          stop = () => controller.abort(signal?.reason instanceof Error ? signal.reason : new Error("the request was aborted"));
          if (signal?.aborted) stop();
          else signal?.addEventListener("abort", stop, { once: true });
        },
        onRequestUpgrade: (_controller, _code, answered, socket) => settle(() => resolve({ socket, headers: answered })),
        onResponseStart(_controller, code, answered) {
          refusal = { code, isJson: String(answered["content-type"]).startsWith("application/json"), text: "" };
        },
        onResponseData(_controller, chunk) {
          if (refusal !== undefined && refusal.text.length < longestRefusal) refusal.text += chunk.toString("utf8");
        },
        onResponseEnd() {
          const { code = 0, isJson = false, text = "" } = refusal ?? {};
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
