import { readdirSync, readFileSync } from "node:fs";

/** How long to wait for expected results, whatever the recording says: a busy machine is slow, not wrong. */
export const minTimeoutMs = 45_000;

/** A category of recorded scenarios: one file of `testdata/conformance`. */
export interface Category {
  readonly category: string;
  readonly scenarios: readonly Scenario[];
}

/** What a scenario needs in addition to the API server. */
export type Requirement =
  | "compacted-history"
  | "garbage-collector"
  | "mutating-admission-policy"
  | "namespace-controller"
  | "node-restriction"
  | "policy-status-controller"
  | "quota-controller"
  | "workload-controllers";

/** Requests that depend on each other, with kube-apiserver's responses. */
export interface Scenario {
  readonly name: string;
  readonly description: string;
  /** Variables, each bound to a new namespace. */
  readonly namespaces?: readonly string[];
  readonly requires?: readonly Requirement[];
  /** What must not run with the API server. */
  readonly conflicts?: readonly Requirement[];
  /** Whether `metadata.managedFields` is compared. */
  readonly managedFields?: boolean;
  readonly steps: readonly Step[];
  /** Sent afterwards in reverse order; responses are ignored. */
  readonly cleanup?: readonly RecordedRequest[];
}

/** A request, or events read from a watch that an earlier step opened. */
export interface Step {
  readonly name: string;
  readonly request?: RecordedRequest;
  readonly sleepMs?: number;
  readonly eventually?: { readonly timeoutMs?: number; readonly intervalMs?: number; readonly until?: Until };
  readonly watch?: TakeEvents & { readonly open?: boolean };
  readonly events?: TakeEvents & { readonly from: string };
  readonly compare?: "status";
  readonly pick?: readonly string[];
  readonly ignore?: readonly string[];
  readonly sortItems?: boolean;
  readonly sortEvents?: boolean;
  readonly compareHeaders?: readonly string[];
  readonly managedFields?: boolean;
  /** Whether the messages of a Status are compared. */
  readonly messages?: boolean;
  readonly assert?: readonly Readonly<Record<string, unknown>>[];
  readonly expect: Expectation;
}

/** How many events to read from a watch, and how long to wait. */
export interface TakeEvents {
  readonly count?: number;
  readonly timeoutMs?: number;
  /** After that, read further events for this long. */
  readonly quietMs?: number;
  readonly skipBookmarks?: boolean;
  /** Read until the server ends the stream. */
  readonly untilClosed?: boolean;
}

/** The condition that a repeated request waits for. */
export interface Until {
  readonly status?: number;
  readonly where?: readonly {
    readonly path: string;
    readonly equals?: unknown;
    readonly exists?: boolean;
    readonly length?: number;
  }[];
}

/** A request with variables. */
export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly accept?: string;
  /** `""`: no token. Absent: the administrator's. */
  readonly token?: string;
  readonly body?: unknown;
  readonly bodyText?: string;
  readonly bodyFrom?: { readonly value: unknown; readonly patch?: readonly unknown[] };
  readonly contentType?: string;
}

/** The recorded response, normalised and with placeholders. */
export interface Expectation {
  readonly status?: number;
  readonly body?: unknown;
  readonly events?: readonly unknown[];
  readonly headers?: Readonly<Record<string, string>>;
}

const folder = new URL("../../../testdata/conformance/", import.meta.url);

/** All recorded categories. */
export function loadCorpus(): readonly Category[] {
  return readdirSync(folder)
    .sort()
    .map((file): unknown => JSON.parse(readFileSync(new URL(file, folder), "utf8")))
    .filter((document): document is Category => typeof document === "object" && document !== null && "scenarios" in document);
}

/** The lists that the comparison rules refer to. */
export interface NormalisationLists {
  readonly unorderedKeys: readonly string[];
  readonly nullIsAbsent: readonly string[];
  readonly nullIsAbsentInBuiltIns: readonly string[];
  readonly droppedKeys: readonly string[];
  readonly droppedByKind: Readonly<Record<string, readonly string[]>>;
  readonly causeReasonClasses: Readonly<Record<string, string>>;
  readonly crdCauseFieldPrefixes: readonly (readonly [string, string])[];
  readonly managedFieldsEntryDropped: readonly string[];
  readonly fieldsV1Collapsed: readonly string[];
  readonly fieldsV1ItemsCollapsed: readonly string[];
  readonly ignoredObjectNames: readonly string[];
  readonly placeholders: Readonly<Record<string, string>>;
}

/** Reads {@link NormalisationLists}. */
export function loadNormalisation(): NormalisationLists {
  return JSON.parse(readFileSync(new URL("normalisation.json", folder), "utf8")) as NormalisationLists;
}
