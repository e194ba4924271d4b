import type { Schema } from "@keelson/api-machinery/schema";
import { expect, test } from "vitest";
import { loadOperators, loadOperatorFlags, operatorEntries } from "./operators.ts";

const operators = await loadOperators();

/** Paths of the fields without a description. */
function undescribed(schema: Schema, path = ""): readonly string[] {
  const fields = Object.entries(schema.properties ?? {});
  const inside = typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined;
  return [
    ...fields.filter(([, { description = "" }]) => description === "").map(([name]) => `${path}.${name}`),
    ...fields.flatMap(([name, field]) => undescribed(field, `${path}.${name}`)),
    ...(schema.items === undefined ? [] : undescribed(schema.items, `${path}[]`)),
    ...(inside === undefined ? [] : undescribed(inside, `${path}{}`)),
  ];
}

const kinds = operators.flatMap(({ resources }) => resources.map(({ crd, schema }) => [crd.metadata.name, schema] as const));

test.each(kinds)("kubectl explain describes every field of %s", (_name, schema) => {
  const { apiVersion: _a, kind: _k, metadata: _m, ...properties } = schema.properties ?? {};
  expect(Object.keys(properties)).toContain("spec");
  expect(undescribed({ ...schema, properties })).toEqual([]);
});

test("lists every operator under its own name and description", () => {
  const listed = operatorEntries.map(({ name, commandName, description }) => ({ name, commandName, description }));
  expect(listed).toEqual(operators.map(({ name, commandName, description }) => ({ name, commandName, description })));
});

test("loads the flags of all operators and servers without the operators", async () => {
  expect(await loadOperatorFlags()).toEqual(
    operators.flatMap(({ flags: own = [], servers }) => [...own, ...servers.flatMap(({ flags = [] }) => flags)]),
  );
});

test("the same short flags mean the same in every command", () => {
  const meanings: Readonly<Record<string, string>> = {
    ...{ A: "all-namespaces", f: "follow", l: "selector", n: "namespace", o: "output", w: "watch" },
  };
  const wrong = operators.flatMap(({ name, commands }) =>
    commands.flatMap((command) =>
      (command.flags ?? [])
        .filter(
          ({ name: flag, short = "" }) =>
            (short in meanings || Object.values(meanings).includes(flag)) && meanings[short] !== flag,
        )
        .map((flag) => `${name} ${command.name}: -${flag.short ?? ""} --${flag.name}`),
    ),
  );
  // As with mpirun, -n is the number of ranks; as with make and Rhino, -f is the makefile.
  expect(wrong).toEqual(["mpi run: -n --np", "mpi run: - --namespace", "mpi build: -f --file"]);
});

test("small commands are those of their operators", async () => {
  const small = operatorEntries.flatMap(({ name, smallCommands = {} }) =>
    Object.entries(smallCommands).map(([command, load]) => ({ operator: name, command, load })),
  );
  expect(small.map(({ operator, command }) => `${operator} ${command}`)).toEqual(["robots agent"]);
  for (const { operator, command, load } of small) {
    const { run: _run, ...own } = await load();
    const whole = operators.find(({ name }) => name === operator)?.commands.find(({ name }) => name === command);
    expect(JSON.stringify(whole)).toBe(JSON.stringify(own));
  }
});
