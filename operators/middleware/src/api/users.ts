import { Type } from "typebox";
import { duration, listMap, partName } from "@keelson/api-machinery/fields";

/** The programs decide what a rule is. Passwords come from the Secret: what Redis takes for one is rejected before it is stored. */
const rulePattern = "^[A-Za-z~&%+@-][!-~]*$";

/** Schema of a user of the programs. */
const appUser = Type.Object({
  name: partName("Name of the user. `default` is reserved for clients that send a password only.", 40),
  rules: Type.Array(
    Type.String({
      pattern: rulePattern,
      maxLength: 200,
      description: "A rule, such as +@read or ~app:* of Redis, or role:pg_monitor of PostgreSQL.",
    }),
    {
      description: "Access rules in the syntax of the program. Everything else is forbidden.",
      maxItems: 100,
    },
  ),
  passwordSecret: Type.Optional(
    Type.Object(
      { name: Type.String({ description: "Name of the Secret.", minLength: 1, maxLength: 253 }) },
      { description: "Secret with the key password. Default: <app>-user-<name>, which is created with a random password." },
    ),
  ),
});
/** Fields of the spec of an App. */
export const userFields = {
  users: Type.Optional(
    Type.Array(appUser, { ...listMap("name", "Users of the programs, in addition to the default user."), maxItems: 100 }),
  ),
  passwordRotation: Type.Optional(
    Type.Object(
      {
        gracePeriod: Type.Optional(
          duration("How long a previous password is accepted after the new one was published in its Secret.", {
            default: "1h",
          }),
        ),
      },
      { description: "Rotation of passwords." },
    ),
  ),
};
