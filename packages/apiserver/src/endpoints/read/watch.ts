import { forbiddenCause, notSupportedCause, type StatusCause } from "@keelson/api-machinery/validation";
import type { Call } from "../call.ts";
import { badRequest, invalidOptions } from "../errors.ts";
import type { WatchOutcome } from "../outcome.ts";
import { isTrue } from "../request-info.ts";
import { ObjectWatch } from "./object-watch.ts";
import { requireListMatch } from "./list-match.ts";
import { integerOf, parseStartingVersion } from "./resource-version.ts";
import { type Selection, selectionOf } from "./selection.ts";

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
  const selection = selectionOf(resource, watchedQuery(call));
  requireFewRequirements(selection);
  // As in kube-apiserver, the deprecated path below /watch/ takes the options of a list.
  if (!isTrue(query["watch"])) requireListMatch(query, query["continue"] ?? "");
  const sendsInitialEvents = isTrue(query["watch"]) ? initialEvents(query) : undefined;
  const from = parseStartingVersion(query["resourceVersion"]);
  const seconds = integerOf(query["timeoutSeconds"]);
  const timeoutSeconds = seconds > 0 ? seconds : defaultTimeoutSeconds + call.random.below(defaultTimeoutSeconds);
  // As in kube-apiserver, a watch from no version or from 0 asks for the initial events.
  const startsWithState = sendsInitialEvents ?? (from === undefined || from === 0);
  const plan = {
    // Without initial events and without a resourceVersion, the watch starts from now.
    from: from || (sendsInitialEvents === false ? store.revision : 0),
    startsWithState,
    marksInitialEnd: startsWithState && isTrue(query["allowWatchBookmarks"]),
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

/** The query of a watch. The deprecated path below /watch/ may name one object. */
function watchedQuery({ info, query }: Call): Call["query"] {
  if (!info.isNamed) return query;
  const terms = [query["fieldSelector"] ?? "", `metadata.name=${info.name}`];
  return { ...query, fieldSelector: terms.filter((term) => term !== "").join(",") };
}

/** Maximum number of requirements in the selectors of a watch: it compares them to every change, together with all other watches. */
const maxRequirements = 256;

function requireFewRequirements({ requirements }: Selection): void {
  if (requirements <= maxRequirements) return;
  throw badRequest(`the selectors of a watch must have at most ${maxRequirements} requirements, got ${requirements}`);
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
  }
  const version = query["resourceVersion"] ?? "";
  const isImplicit = value === "" && (version === "" || version === "0");
  if (query["continue"] && (match !== "" || isImplicit)) {
    causes.push(forbiddenCause(field, "resourceVersionMatch is forbidden when continue is provided"));
  }
  if (causes.length > 0) throw invalidOptions("ListOptions", ...causes);
  return value === "" ? undefined : isTrue(value);
}
