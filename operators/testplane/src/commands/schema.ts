import type { CommandDefinition } from "@keelson/operator";

/** `keelson testplane schema`. */
export const schemaCommand: CommandDefinition = {
  name: "schema",
  description: "print the JSON Schema of tests, for completion and validation in editors",
  usesCluster: false,
  async run({ stdout }) {
    const { testSchema } = await import("./json-schema.ts");
    stdout.write(`${JSON.stringify(testSchema(), null, 2)}\n`);
    return 0;
  },
};
