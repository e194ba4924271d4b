import { type Static, Type } from "typebox";
import { choice, int32 } from "@keelson/api-machinery/fields";

/** Comparisons that a constraint can use. */
export const operands = ["=", "!=", ">", ">=", "<", "<=", "regexp", "set_contains", "version"] as const;

const left =
  "Left side of the comparison. ${attr.NAME}, ${label.NAME}, ${meta.NAME} and ${robot.id} are replaced by the robot's values, for example ${attr.kernel.name} (linux), ${attr.cpu.arch}, ${attr.cpu.numcores}, ${attr.memory.totalbytes}, ${attr.os.name}, ${attr.os.version}, ${attr.unique.hostname}.";
const right =
  'Right side of the comparison: a string; for regexp a regular expression; for version a list such as ">= 1.2, < 2"; for set_contains a comma-separated list.';

const comparison = {
  lTarget: Type.Optional(Type.String({ description: left, maxLength: 1024 })),
  rTarget: Type.Optional(Type.String({ description: right, maxLength: 1024 })),
  ltarget: Type.Optional(Type.String({ description: "Alias of lTarget.", maxLength: 1024 })),
  rtarget: Type.Optional(Type.String({ description: "Alias of rTarget.", maxLength: 1024 })),
  operand: Type.Optional(choice(operands, "How the two sides are compared.", { default: "=" })),
};

/** A requirement on a robot. */
export const Constraint = Type.Object(comparison, {
  description: "A requirement on the robot: lTarget operand rTarget must hold.",
});
export type Constraint = Static<typeof Constraint>;

/** A preference for robots, or against them. */
export const Affinity = Type.Object(
  {
    ...comparison,
    weight: Type.Optional(
      int32("From 100, the strongest preference, to -100, which avoids robots where the comparison holds.", {
        minimum: -100,
        maximum: 100,
        default: 50,
      }),
    ),
  },
  { description: "A preference for robots where lTarget operand rTarget holds; with a negative weight, against them." },
);
export type Affinity = Static<typeof Affinity>;
