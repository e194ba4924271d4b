import type { DeepReadonly, JsonObject, KubernetesObject } from "@keelson/api-machinery";
import type { Selector } from "@keelson/api-machinery/selectors";
import { listAt, textAt, valueAt } from "../../registry/object-fields.ts";
import { type WebhookTarget, webhookTarget } from "../../webhooks/webhook-target.ts";
import { selectorOf } from "../matching/selectors.ts";
import { MatchConditions } from "./match-conditions.ts";

/** A webhook of a configuration (admissionregistration/v1 MutatingWebhook and ValidatingWebhook). */
export interface Webhook {
  /** Name of the configuration. */
  readonly configuration: string;
  /** Unique among all webhooks of its type. */
  readonly id: string;
  readonly name: string;
  readonly rules: readonly unknown[];
  readonly matchPolicy: string;
  readonly namespaceSelector: Selector;
  readonly objectSelector: Selector;
  readonly conditions: MatchConditions;
  readonly ignoresFailures: boolean;
  readonly timeoutMs: number;
  readonly supportsDryRun: boolean;
  readonly isReinvocable: boolean;
  readonly reviewVersions: readonly string[];
  readonly target: WebhookTarget | undefined;
}

const defaultTimeoutSeconds = 10;

/** Reads the webhooks of a stored configuration, in its order. */
export function webhooksOf(configuration: DeepReadonly<KubernetesObject>): readonly Webhook[] {
  const name = configuration.metadata.name ?? "";
  return (listAt(configuration, "webhooks") as readonly JsonObject[]).map((hook, index) => readWebhook(name, hook, index));
}

function readWebhook(configuration: string, hook: JsonObject, index: number): Webhook {
  const name = textAt(hook, "name");
  const timeout = valueAt(hook, "timeoutSeconds");
  const sideEffects = textAt(hook, "sideEffects");
  const ignoresFailures = textAt(hook, "failurePolicy") === "Ignore";
  return {
    configuration,
    id: `${configuration}/${name}/${index}`,
    name,
    rules: listAt(hook, "rules"),
    matchPolicy: textAt(hook, "matchPolicy"),
    namespaceSelector: selectorOf(valueAt(hook, "namespaceSelector")),
    objectSelector: selectorOf(valueAt(hook, "objectSelector")),
    conditions: new MatchConditions(listAt(hook, "matchConditions"), ignoresFailures),
    ignoresFailures,
    timeoutMs: (typeof timeout === "number" ? timeout : defaultTimeoutSeconds) * 1000,
    supportsDryRun: sideEffects === "None" || sideEffects === "NoneOnDryRun",
    isReinvocable: textAt(hook, "reinvocationPolicy") === "IfNeeded",
    reviewVersions: listAt(hook, "admissionReviewVersions").map(String),
    target: webhookTarget(valueAt(hook, "clientConfig")),
  };
}
