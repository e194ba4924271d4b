import { type Static, Type } from "typebox";
import { choice } from "@keelson/api-machinery/fields";

/** Comparisons that a constraint can use. */
export const operands = ["=", "!=", ">", ">=", "<", "<=", "regexp", "set_contains", "version"] as const;

const left =
  "Left side of the comparison. ${attr.NAME}, ${label.NAME}, ${meta.NAME} and ${robot.id} are replaced by the robot's values, for example ${attr.kernel.name} (linux), ${attr.cpu.arch}, ${attr.cpu.numcores}, ${attr.memory.totalbytes}, ${attr.os.name}, ${attr.os.version}, ${attr.unique.hostname}.";
const right =
  'Right side of the comparison: a string; for regexp a regular expression; for version a list such as ">= 1.2, < 2"; for set_contains a comma-separated list.';

/** A requirement on a robot. */
export const Constraint = Type.Object(
  {
    lTarget: Type.Optional(Type.String({ description: left, maxLength: 1024 })),
    rTarget: Type.Optional(Type.String({ description: right, maxLength: 1024 })),
    ltarget: Type.Optional(Type.String({ description: "Alias of lTarget.", maxLength: 1024 })),
    rtarget: Type.Optional(Type.String({ description: "Alias of rTarget.", maxLength: 1024 })),
    operand: Type.Optional(choice(operands, "How the two sides are compared.", { default: "=" })),
  },
  { description: "A requirement on the robot: lTarget operand rTarget must hold." },
);
export type Constraint = Static<typeof Constraint>;
