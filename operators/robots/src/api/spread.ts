import { type Static, Type } from "typebox";
import { int32 } from "@keelson/api-machinery/fields";

const SpreadTarget = Type.Object(
  {
    value: Type.String({ description: 'Value of the attribute. "*" stands for every value without a target.', maxLength: 256 }),
    percent: int32("Share of the copies that this value gets, in percent.", { minimum: 0, maximum: 100 }),
  },
  { description: "The share of one value." },
);

/** How the copies of a task spread over the values of an attribute of robots. */
export const Spread = Type.Object(
  {
    attribute: Type.String({
      description: "Attribute of robots, such as ${label.site}. The same references as in lTarget of a constraint.",
      minLength: 1,
      maxLength: 1024,
    }),
    weight: Type.Optional(
      int32("Strength relative to the other spreads of the task.", { minimum: 1, maximum: 100, default: 50 }),
    ),
    targets: Type.Optional(
      Type.Array(SpreadTarget, {
        description:
          "Shares of values, together at most 100 percent. Each other value may get what is left. Without targets, the copies spread evenly.",
        maxItems: 64,
      }),
    ),
  },
  { description: "A preference for spreading the copies of a task over the values of an attribute." },
);
export type Spread = Static<typeof Spread>;
