import { type DeepReadonly, jsonEquals, type KubernetesObject } from "@keelson/api-machinery";
import {
  forbiddenCause,
  invalidCause,
  notSupportedCause,
  requiredCause,
  type StatusCause,
} from "@keelson/api-machinery/validation";
import { flowControlGroup, type FlowSchemaObject, type PriorityLevelObject } from "../../../flowcontrol/configuration.ts";
import { age } from "../../../table/human-duration.ts";
import { ageColumn, builtinResource, column } from "../../builtin/builtin-resource.ts";
import type { ServedResource } from "../../served-resource.ts";
import { flowSchemaCauses } from "./flow-schema-validation.ts";

/** flowcontrol.apiserver.k8s.io/v1: the configuration of API Priority and Fairness. */
export function flowControlKinds(): readonly ServedResource[] {
  return [flowSchemas, priorityLevels];
}

const schemaOf = (object: DeepReadonly<KubernetesObject>): DeepReadonly<FlowSchemaObject> =>
  object as DeepReadonly<FlowSchemaObject>;
const levelOf = (object: DeepReadonly<KubernetesObject>): DeepReadonly<PriorityLevelObject> =>
  object as DeepReadonly<PriorityLevelObject>;

/** Names of objects whose spec cannot change. */
const mandatory: ReadonlySet<string> = new Set(["exempt", "catch-all"]);

const flowSchemas = builtinResource({
  group: flowControlGroup,
  version: "v1",
  kind: "FlowSchema",
  plural: "flowschemas",
  scope: "Cluster",
  hasStatus: true,
  columns: [
    column("PriorityLevel", "The priority level of matching requests."),
    column("MatchingPrecedence", "Schemas with a lower number are tried first."),
    column("DistinguisherMethod", "How requests are split into flows."),
    ageColumn,
    column("MissingPL", "Whether the priority level does not exist."),
  ],
  cells: (object, now) => {
    const { spec, status }: Partial<DeepReadonly<FlowSchemaObject>> = schemaOf(object);
    return [
      spec?.priorityLevelConfiguration?.name ?? "",
      spec?.matchingPrecedence ?? 0,
      spec?.distinguisherMethod?.type ?? "<none>",
      age(object.metadata.creationTimestamp, now),
      status?.conditions?.find(({ type }) => type === "Dangling")?.status ?? "?",
    ];
  },
  strategy: {
    default: (object) => {
      const { spec } = object as FlowSchemaObject;
      // Zero and absent are the same in Go.
      spec.matchingPrecedence ||= 1_000;
    },
    prepareForCreate: dropStatus,
    validate: (object) => flowSchemaCauses(schemaOf(object)),
  },
});

const priorityLevels = builtinResource({
  group: flowControlGroup,
  version: "v1",
  kind: "PriorityLevelConfiguration",
  plural: "prioritylevelconfigurations",
  scope: "Cluster",
  hasStatus: true,
  columns: [
    column("Type", "Whether the level limits its requests."),
    column("NominalConcurrencyShares", "Its share of the server's concurrency."),
    column("Queues", "Number of queues."),
    column("HandSize", "Number of queues per flow."),
    column("QueueLengthLimit", "Maximum length of a queue."),
    ageColumn,
  ],
  cells: (object, now) => {
    const { spec }: Partial<DeepReadonly<PriorityLevelObject>> = levelOf(object);
    const queuing = spec?.limited?.limitResponse?.queuing;
    return [
      spec?.type ?? "",
      (spec?.type === "Exempt" ? spec.exempt : spec?.limited)?.nominalConcurrencyShares ?? "<none>",
      queuing?.queues ?? "<none>",
      queuing?.handSize ?? "<none>",
      queuing?.queueLengthLimit ?? "<none>",
      age(object.metadata.creationTimestamp, now),
    ];
  },
  strategy: {
    default: (object) => setLevelDefaults(object as PriorityLevelObject),
    prepareForCreate: dropStatus,
    *validate(object) {
      yield* exemptCauses(levelOf(object));
      yield* validateLevel(levelOf(object));
    },
    validateUpdate: (object, old) =>
      mandatory.has(object.metadata.name ?? "") &&
      levelOf(object).spec.type !== levelOf(old).spec.type &&
      !jsonEquals(levelOf(object).spec, levelOf(old).spec)
        ? [invalidCause("spec", levelOf(object).spec, "spec of a mandatory object cannot change")]
        : [],
  },
});

function setLevelDefaults({ spec }: PriorityLevelObject): void {
  const { exempt, limited } = spec;
  if (exempt !== undefined) {
    exempt.nominalConcurrencyShares ??= 0;
    exempt.lendablePercent ??= 0;
  }
  if (limited === undefined) return;
  limited.nominalConcurrencyShares ??= 30;
  limited.lendablePercent ??= 0;
  const queuing = limited.limitResponse?.queuing;
  if (queuing === undefined) return;
  queuing.handSize ||= 8;
  queuing.queues ||= 64;
  queuing.queueLengthLimit ||= 50;
}

/** Exactly one level is exempt. */
function exemptCauses({ metadata, spec }: DeepReadonly<PriorityLevelObject>): StatusCause[] {
  if ((metadata.name === "exempt") === (spec.type === "Exempt")) return [];
  return [invalidCause("spec.type", spec.type, "must be 'Exempt' if and only if `name` is 'exempt'")];
}

const maxQueues = 10_000_000;
/** Bits of the hash that deals a hand of queues to a flow. */
const maxHashBits = 60;

function validateLevel({ spec }: DeepReadonly<PriorityLevelObject>): StatusCause[] {
  const { type, limited, exempt } = spec;
  if (type === "Exempt") {
    const causes = limited === undefined ? [] : [forbiddenCause("spec.limited", "must be nil if the type is not Limited")];
    return [...causes, ...shareCauses(exempt, "spec.exempt"), ...lendingCauses(exempt, "spec.exempt")];
  }
  if (type !== "Limited") return [notSupportedCause("spec.type", type, ["Exempt", "Limited"])];
  const causes = exempt === undefined ? [] : [forbiddenCause("spec.exempt", "must be nil if the type is Limited")];
  if (limited === undefined) return [...causes, requiredCause("spec.limited", "must not be empty when type is Limited")];
  const borrowing = limited.borrowingLimitPercent ?? 0;
  const detail = "if specified, must be a non-negative integer";
  return [
    ...causes,
    ...shareCauses(limited, "spec.limited"),
    ...responseCauses(limited.limitResponse, "spec.limited.limitResponse"),
    ...lendingCauses(limited, "spec.limited"),
    ...(borrowing < 0 ? [invalidCause("spec.limited.borrowingLimitPercent", borrowing, detail)] : []),
  ];
}

interface Shares {
  readonly nominalConcurrencyShares?: number;
  readonly lendablePercent?: number;
}

function shareCauses({ nominalConcurrencyShares: shares = 0 }: Shares = {}, path: string): StatusCause[] {
  return shares < 0 ? [invalidCause(`${path}.nominalConcurrencyShares`, shares, "must be a non-negative integer")] : [];
}

function lendingCauses({ lendablePercent: percent = 0 }: Shares = {}, path: string): StatusCause[] {
  if (percent >= 0 && percent <= 100) return [];
  return [invalidCause(`${path}.lendablePercent`, percent, "must be between 0 and 100, inclusive")];
}

type Limited = NonNullable<PriorityLevelObject["spec"]["limited"]>;

function responseCauses(limitResponse: DeepReadonly<Limited["limitResponse"]>, path: string): StatusCause[] {
  const type = limitResponse?.type ?? "";
  const queuing = limitResponse?.queuing;
  const field = `${path}.queuing`;
  if (type === "Reject") {
    const detail = "must be nil if limited.limitResponse.type is not Limited";
    return queuing === undefined ? [] : [forbiddenCause(field, detail)];
  }
  if (type !== "Queue") return [notSupportedCause(`${path}.type`, type, ["Queue", "Reject"])];
  if (queuing === undefined) return [requiredCause(field, "must not be empty if limited.limitResponse.type is Limited")];
  const { queues = 1, handSize = 1, queueLengthLimit = 1 } = queuing;
  const causes: StatusCause[] = [];
  if (queueLengthLimit <= 0) causes.push(invalidCause(`${field}.queueLengthLimit`, queueLengthLimit, "must be positive"));
  if (queues <= 0) causes.push(invalidCause(`${field}.queues`, queues, "must be positive"));
  if (queues > maxQueues) causes.push(invalidCause(`${field}.queues`, queues, `must not be greater than ${maxQueues}`));
  if (handSize <= 0) causes.push(invalidCause(`${field}.handSize`, handSize, "must be positive"));
  else if (handSize > queues) {
    causes.push(invalidCause(`${field}.handSize`, handSize, `should not be greater than queues (${queues})`));
  } else if (Math.ceil(Math.log2(queues) * handSize) > maxHashBits) {
    const detail = `required entropy bits of deckSize ${queues} and handSize ${handSize} should not be greater than ${maxHashBits}`;
    causes.push(invalidCause(`${field}.handSize`, handSize, detail));
  }
  return causes;
}

function dropStatus(object: KubernetesObject): void {
  Reflect.set(object, "status", {});
}
