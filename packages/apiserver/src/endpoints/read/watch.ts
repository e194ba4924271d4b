import { forbiddenCause, notSupportedCause, type StatusCause } from "@keelson/api-machinery/validation";
import type { Call } from "../call.ts";
import { invalidOptions } from "../errors.ts";
import type { WatchOutcome } from "../outcome.ts";
import { isTrue } from "../request-info.ts";
import { ObjectWatch } from "./object-watch.ts";
import { integerOf, parseResourceVersion } from "./resource-version.ts";
import { selectionOf } from "./selection.ts";

/** Default duration of a watch. A random part of the same length spreads reconnects. */
const defaultTimeoutSeconds = 1_800;

/** An open watch, for the server to end. */
export interface OpenWatch {
  /** Ends the watch. The client may resume. */
  end(): void;
}

/** Serves watch: validates the options. The outcome's consumer opens the watch, and `onOpen` registers it until it closes. */
export function watchObjects(call: Call, onOpen: (watch: OpenWatch) => () => void): WatchOutcome {
  const { resource, query, store } = call;
  const selection = selectionOf(resource, query);
  const from = parseResourceVersion(query["resourceVersion"]);
  const sendsInitialEvents = initialEvents(query);
  const seconds = integerOf("timeoutSeconds", query["timeoutSeconds"]);
  const timeoutSeconds = seconds > 0 ? seconds : defaultTimeoutSeconds + call.random.below(defaultTimeoutSeconds);
  const plan = {
    // Without initial events and without a resourceVersion, the watch starts from now.
    from: from || (sendsInitialEvents === false ? store.revision : 0),
    startsWithState: sendsInitialEvents ?? (from === undefined || from === 0),
    marksInitialEnd: sendsInitialEvents === true && isTrue(query["allowWatchBookmarks"]),
    hasBookmarks: isTrue(query["allowWatchBookmarks"]),
    timeoutMs: timeoutSeconds * 1000,
    selection,
  };
  return {
    kind: "watch",
    resource,
    open(sink) {
      const watch = new ObjectWatch(call, plan, sink);
      watch.onClosed(onOpen(watch));
      watch.start();
      return { close: () => watch.close() };
    },
  };
}

function initialEvents(query: Readonly<Record<string, string | undefined>>): boolean | undefined {
  const value = query["sendInitialEvents"] ?? "";
  const match = query["resourceVersionMatch"] ?? "";
  const field = "resourceVersionMatch";
  const causes: StatusCause[] = [];
  if (value !== "" && match !== "NotOlderThan") {
    causes.push(forbiddenCause(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
  }
  if (match !== "") {
    if (value === "") {
      causes.push(forbiddenCause(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"));
    }
    if (match !== "NotOlderThan") causes.push(notSupportedCause(field, match, ["NotOlderThan"]));
    if (query["continue"]) causes.push(forbiddenCause(field, "resourceVersionMatch is forbidden when continue is provided"));
  }
  if (causes.length > 0) throw invalidOptions("ListOptions", ...causes);
  return value === "" ? undefined : isTrue(value);
}
