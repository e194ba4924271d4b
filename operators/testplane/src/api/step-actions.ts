import { choice, duration, int32, listMap } from "@keelson/api-machinery/fields";
import { Type, type Static } from "typebox";
import { toolActions } from "./tool-actions.ts";

const ObjectReference = Type.Object(
  {
    apiVersion: Type.String({ description: "API version of the object, such as apps/v1.", minLength: 1 }),
    kind: Type.String({ description: "Kind of the object, such as Deployment.", minLength: 1 }),
    name: Type.String({ description: "Name of the object.", minLength: 1 }),
    namespace: Type.Optional(Type.String({ description: "Namespace of the object. Default: that of the test." })),
  },
  { description: "The object to act on." },
);
/** A reference to an object of any kind. */
export type ObjectReference = Static<typeof ObjectReference>;

const Manifests = (description: string) =>
  Type.Object(
    {
      manifests: Type.Array(
        Type.Unsafe<Record<string, unknown>>({ type: "object", "x-kubernetes-preserve-unknown-fields": true }),
        { description: "The objects, in this order. A List counts as its items.", minItems: 1, maxItems: 200 },
      ),
    },
    { description },
  );

const program = {
  image: Type.Optional(Type.String({ description: "Image of the container. Default: busybox.", minLength: 1 })),
  env: Type.Optional(
    Type.Array(
      Type.Object({
        name: Type.String({ description: "Name of the variable.", minLength: 1 }),
        value: Type.String({ description: "Value of the variable." }),
      }),
      { ...listMap("name", "Environment variables."), maxItems: 100 },
    ),
  ),
};

/** What a step does. A step has at most one action, or the object of `resource`. */
export const actions = {
  apply: Type.Optional(Manifests("Applies objects by server-side apply.")),
  create: Type.Optional(Manifests("Creates objects. Fails if one exists.")),
  patch: Type.Optional(
    Type.Object(
      {
        object: ObjectReference,
        type: Type.Optional(choice(["merge", "strategic", "json"], "Type of the patch. Default: merge.")),
        subresource: Type.Optional(Type.String({ description: "Subresource to patch, such as status.", pattern: "^[a-z]+$" })),
        body: Type.Unsafe<unknown>({
          "x-kubernetes-preserve-unknown-fields": true,
          description: "The patch: an object, or a list of operations for the type json.",
        }),
      },
      { description: "Patches an object." },
    ),
  ),
  delete: Type.Optional(
    Type.Object(
      {
        object: ObjectReference,
        propagationPolicy: Type.Optional(
          choice(["Background", "Foreground", "Orphan"], "What becomes of the objects that it owns. Default: Background."),
        ),
      },
      { description: "Deletes an object and waits until it does not exist." },
    ),
  ),
  scale: Type.Optional(
    Type.Object(
      {
        object: ObjectReference,
        replicas: int32("Number of replicas.", { minimum: 0 }),
      },
      { description: "Scales an object by its subresource scale." },
    ),
  ),
  script: Type.Optional(
    Type.Object(
      {
        content: Type.String({ description: "The script, for /bin/sh.", minLength: 1, maxLength: 65_536 }),
        ...program,
      },
      { description: "Runs a script in a Pod. Checks and outputs read result.exitCode, result.stdout and result.stderr." },
    ),
  ),
  command: Type.Optional(
    Type.Object(
      {
        command: Type.Array(Type.String(), { description: "The program and its arguments.", minItems: 1, maxItems: 100 }),
        ...program,
      },
      { description: "Runs a program in a Pod, without a shell. result.stdout has standard output and standard error." },
    ),
  ),
  ...toolActions,
  sleep: Type.Optional(duration("Waits before the checks.")),
};

/** How the API server must reject the action of a step. */
export const expectError = Type.Object(
  {
    reason: Type.Optional(Type.String({ description: "Reason of the status, such as Invalid or Forbidden." })),
    code: Type.Optional(int32("HTTP status code, such as 422.", { minimum: 400, maximum: 599 })),
    message: Type.Optional(Type.String({ description: "Regular expression (RE2) that the message matches.", maxLength: 1024 })),
  },
  { description: "The API server must reject the action of the step. The step fails if it accepts it." },
);
/** How the API server must reject an action. */
export type ExpectError = Static<typeof expectError>;

/** Names of the actions. */
export const actionNames = Object.keys(actions) as readonly (keyof typeof actions)[];
