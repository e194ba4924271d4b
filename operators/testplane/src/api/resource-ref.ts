import { type Schema, typedSchema } from "@keelson/api-machinery/schema";

/** Which objects are read (ResourceSelector of TestPlane). */
export interface ResourceSelector {
  apiVersion: string;
  kind: string;
  /** Default: the test's. */
  namespace?: string;
  name?: string;
  labelSelector?: Record<string, string>;
  annotationSelector?: Record<string, string>;
}

/** What is done with a manifest. */
export type ResourceAction = "Apply" | "Delete";

/** An object that a test makes, deletes or reads (ResourceRef of TestPlane): `manifest` or `selector`, never both. */
export interface ResourceRef {
  manifest?: Record<string, unknown>;
  selector?: ResourceSelector;
  action?: ResourceAction;
  adopt?: boolean;
}

const strings: Schema = { type: "object", additionalProperties: { type: "string" } };

export const resourceSelectorSchema: Schema = {
  type: "object",
  description: "The objects to look at, without changing them: by name, by labels or by annotations, one of the three.",
  required: ["apiVersion", "kind"],
  properties: {
    apiVersion: { type: "string", minLength: 1, description: "API version of the kind, such as apps/v1." },
    kind: { type: "string", minLength: 1, description: "The kind, such as Deployment." },
    namespace: { type: "string", description: "Where they are. Default: the test's namespace." },
    name: { type: "string", description: "Name of the object." },
    labelSelector: { ...strings, description: "Labels that it has." },
    annotationSelector: { ...strings, description: "Annotations that it has." },
  },
  oneOf: [{ required: ["name"] }, { required: ["labelSelector"] }, { required: ["annotationSelector"] }],
};

const manifestSchema = (description: string): Schema => ({
  type: "object",
  "x-kubernetes-preserve-unknown-fields": true,
  description,
});

const adopt: Schema = {
  type: "boolean",
  description:
    "Whether an object that is there already and is not this test's may be changed. It is not deleted with the test; what the test added to it is taken back.",
};

/** A {@link ResourceRef} in a schema. */
export const resourceRef = typedSchema<ResourceRef>({
  type: "object",
  description: "The object that is applied, deleted or looked at.",
  properties: {
    manifest: manifestSchema("The object, as it would be given to kubectl apply --server-side."),
    selector: resourceSelectorSchema,
    action: { type: "string", enum: ["Apply", "Delete"], default: "Apply", description: "What is done with the manifest." },
    adopt,
  },
  oneOf: [{ required: ["manifest"] }, { required: ["selector"] }],
});

/** A workload's resource: a manifest, a List of them, or an array under `manifest.items`. */
export const manifestRef = typedSchema<ResourceRef>({
  type: "object",
  description: "Objects that are applied or deleted.",
  required: ["manifest"],
  properties: {
    manifest: manifestSchema("The object, or a List of objects."),
    action: { type: "string", enum: ["Apply", "Delete"], default: "Apply", description: "What is done with them." },
    adopt,
  },
});
