import { type Static, Type } from "typebox";
import { choice, int32 } from "@keelson/api-machinery/fields";

/** Maximum size of a payload in base64: 16 KiB of data, as in Nomad. */
export const maxPayloadLength = 21_848;

/** Runs a Job at regular times. */
export const Periodic = Type.Object(
  {
    cron: Type.String({
      description: "Schedule: five fields of cron, such as 30 4 * * 1-5, or @hourly, @daily, @weekly, @monthly, @yearly.",
      maxLength: 256,
    }),
    timeZone: Type.Optional(Type.String({ description: "Time zone of the schedule, such as Europe/Berlin.", default: "UTC" })),
    overlap: Type.Optional(
      choice(
        ["allow", "forbid", "replace"],
        "What happens if the last run has not ended. allow: both run. forbid: the new run is skipped. replace: the last run is deleted.",
        { default: "allow" },
      ),
    ),
    enabled: Type.Optional(Type.Boolean({ description: "Whether runs are started.", default: true })),
    historyLimit: Type.Optional(
      int32("Number of ended runs that are kept. Older ones are deleted.", { minimum: 0, maximum: 100, default: 5 }),
    ),
  },
  {
    description:
      "Makes this Job a template: it runs nothing itself and creates a Job for every scheduled time. If scheduled times were missed, only the last one is run.",
  },
);
export type Periodic = Static<typeof Periodic>;

/** Lets a Job be dispatched with parameters. */
export const Parameterized = Type.Object(
  {
    payload: Type.Optional(
      choice(["optional", "required", "forbidden"], "Whether a dispatch has a payload.", { default: "optional" }),
    ),
    metaRequired: Type.Optional(
      Type.Array(Type.String(), { description: "Metadata keys that a dispatch must set.", "x-kubernetes-list-type": "set" }),
    ),
    metaOptional: Type.Optional(
      Type.Array(Type.String(), { description: "Metadata keys that a dispatch may set.", "x-kubernetes-list-type": "set" }),
    ),
  },
  {
    description:
      "Makes this Job a template: it runs nothing itself, and `keelson robots dispatch` creates Jobs from it with metadata and a payload.",
  },
);
export type Parameterized = Static<typeof Parameterized>;
