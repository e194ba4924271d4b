import { isJsonObject, type JsonObject, type JsonValue } from "@keelson/api-machinery";
import { isDuration, parseDuration } from "@keelson/api-machinery/time";
import { UsageError } from "@keelson/operator/flags";
import { parse } from "yaml";

/** Settings of the controllers, as in the `controllers.yaml` of the original. */
export interface ControllerSettings {
  readonly app: AppSettings;
  readonly component: { readonly workers: number; readonly grpcTimeoutMs: number };
  readonly group: { readonly workers: number; readonly grpcTimeoutMs: number };
}

/** Settings of the controller of Apps. */
export interface AppSettings {
  /** Number of Apps that are reconciled at the same time. */
  readonly workers: number;
  /** Maximum retries of a task of an App that does not set them. */
  readonly maxRetries: number;
  /** Time before the first retry. It doubles with each one, up to 60 s. */
  readonly retryBackoffMs: number;
  /** Timeout of an attempt of a task of an App that does not set it. */
  readonly taskTimeout: string;
  readonly isManualRetryEnabled: boolean;
  readonly isManualCancelEnabled: boolean;
}

/** Reads one value. Throws a {@link UsageError} that names the field. */
type Reader = (value: JsonValue, field: string) => unknown;

const fail = (field: string, allowed: string): never => {
  throw new UsageError(`${field}: must be ${allowed}`);
};
const integer =
  (min: number, max: number): Reader =>
  (value, field) =>
    typeof value === "number" && Number.isInteger(value) && value >= min && value <= max
      ? value
      : fail(field, `an integer between ${min} and ${max}`);
const flag: Reader = (value, field) => (typeof value === "boolean" ? value : fail(field, "true or false"));
const duration: Reader = (value, field) =>
  typeof value === "string" && isDuration(value) && parseDuration(value) > 0 ? value : fail(field, "a duration such as 30s");
const workers = integer(1, 1000);

/** The keys of each controller with their defaults, those of the original. */
const schema: Readonly<Record<string, Readonly<Record<string, readonly [Reader, JsonValue]>>>> = {
  app: {
    workers: [workers, 5],
    resyncPeriod: [duration, "30s"],
    metadataCacheTTL: [duration, "60s"],
    maxRetries: [integer(0, 100), 3],
    retryBackoff: [duration, "1s"],
    defaultTaskTimeout: [duration, "300s"],
    enableManualRetry: [flag, true],
    enableManualCancel: [flag, true],
  },
  component: {
    workers: [workers, 10],
    resyncPeriod: [duration, "15s"],
    cacheTTL: [duration, "30s"],
    grpcTimeout: [duration, "30s"],
  },
  group: {
    workers: [workers, 20],
    resyncPeriod: [duration, "10s"],
    grpcTimeout: [duration, "30s"],
    maxConcurrentReconciles: [workers, 10],
  },
  "group.rollingUpdate": { batchSize: [integer(1, 1), 1], interval: [duration, "10s"] },
};

/** The defaults. */
export const defaultControllerSettings: ControllerSettings = readControllerSettings("");

/**
 * Parses a `controllers.yaml`. Missing keys have their defaults.
 *
 * **Errors**: a `UsageError` that names the field, including for an unknown key.
 */
export function readControllerSettings(text: string): ControllerSettings {
  const root = mapOf(parseYaml(text), "controllers.yaml");
  onlyKnown(root, ["controllers"], "");
  const controllers = mapOf(root["controllers"], "controllers");
  onlyKnown(controllers, ["app", "component", "group"], "controllers.");
  const app = readSection("app", controllers["app"]);
  const component = readSection("component", controllers["component"]);
  const { rollingUpdate, ...group } = mapOf(controllers["group"], "controllers.group");
  readSection("group.rollingUpdate", rollingUpdate);
  const ofGroup = readSection("group", group, ["rollingUpdate"]);
  return {
    app: {
      workers: Number(app["workers"]),
      maxRetries: Number(app["maxRetries"]),
      retryBackoffMs: parseDuration(String(app["retryBackoff"])),
      taskTimeout: String(app["defaultTaskTimeout"]),
      isManualRetryEnabled: app["enableManualRetry"] === true,
      isManualCancelEnabled: app["enableManualCancel"] === true,
    },
    component: {
      workers: Number(component["workers"]),
      grpcTimeoutMs: parseDuration(String(component["grpcTimeout"])),
    },
    group: {
      workers: Math.min(Number(ofGroup["workers"]), Number(ofGroup["maxConcurrentReconciles"])),
      grpcTimeoutMs: parseDuration(String(ofGroup["grpcTimeout"])),
    },
  };
}

function parseYaml(text: string): unknown {
  try {
    return parse(text, { maxAliasCount: 100 });
  } catch (error) {
    throw new UsageError(`controllers.yaml: ${(error as Error).message}`);
  }
}

function readSection(name: string, value: unknown, more: readonly string[] = []): Readonly<Record<string, unknown>> {
  const keys = schema[name] ?? {};
  const section = mapOf(value, `controllers.${name}`);
  onlyKnown(section, [...Object.keys(keys), ...more], `controllers.${name}.`);
  return Object.fromEntries(
    Object.entries(keys).map(([key, [read, fallback]]) => [key, read(section[key] ?? fallback, `controllers.${name}.${key}`)]),
  );
}

function mapOf(value: unknown, field: string): JsonObject {
  if (value === undefined || value === null) return {};
  return isJsonObject(value) ? value : fail(field, "a map");
}

function onlyKnown(value: JsonObject, known: readonly string[], prefix: string): void {
  const unknown = Object.keys(value).find((key) => !known.includes(key));
  if (unknown !== undefined) throw new UsageError(`${prefix}${unknown}: unknown key; must be one of ${known.join(", ")}`);
}
