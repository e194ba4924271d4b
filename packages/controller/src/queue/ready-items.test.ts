import fc from "fast-check";
import { expect, test } from "vitest";
import { type ReadyItem, ReadyItems } from "./ready-items.ts";

class Item implements ReadyItem<Item> {
  readonly priority: number;
  readonly order: number;
  readonly group: string;
  lane: ReadyItem<Item>["lane"];
  previous: Item | undefined;
  next: Item | undefined;

  constructor(priority: number, order: number, group = "") {
    this.priority = priority;
    this.order = order;
    this.group = group;
  }
}

test("returns items by priority, then by order, for any sequence of calls", () => {
  const command = fc.oneof(
    fc.record({ kind: fc.constant("push" as const), priority: fc.constantFrom(-100, 0, 1, 5), age: fc.nat(4) }),
    fc.record({ kind: fc.constant("remove" as const), nth: fc.nat(20) }),
    fc.record({ kind: fc.constant("shift" as const) }),
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
      const items = new ReadyItems<Item>();
      let expected: Item[] = [];
      let order = 0;
      for (const step of commands) {
        order += 10;
        if (step.kind === "push") {
          const item = new Item(step.priority, order - step.age * 13);
          items.push(item);
          expected.push(item);
          expected.sort((a, b) => b.priority - a.priority || a.order - b.order);
        } else if (step.kind === "remove") {
          const [item] = expected.splice(step.nth, 1);
          if (item !== undefined) items.remove(item);
        } else {
          expect(items.shift()).toBe(expected.shift());
        }
        expect(items.size).toBe(expected.length);
      }
      const rest = expected.map(() => items.shift());
      expect(rest).toEqual(expected);
      expect(items.shift()).toBe(undefined);
      expected = [];
    }),
  );
});

test("groups take turns, each in its own order, for any sequence of calls", () => {
  const command = fc.oneof(
    fc.record({ kind: fc.constant("push" as const), group: fc.constantFrom("a", "b", "c") }),
    fc.record({ kind: fc.constant("remove" as const), nth: fc.nat(20) }),
    fc.record({ kind: fc.constant("shift" as const) }),
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 80 }), (commands) => {
      const items = new ReadyItems<Item>();
      /** The groups in the order of their turns, each with its items. */
      const expected: Item[][] = [];
      let order = 0;
      for (const step of commands) {
        if (step.kind === "push") {
          const item = new Item(0, order++, step.group);
          items.push(item);
          const group = expected.find(([first]) => first?.group === step.group);
          if (group === undefined) expected.push([item]);
          else group.push(item);
        } else if (step.kind === "remove") {
          const item = expected.flat()[step.nth];
          if (item === undefined) continue;
          items.remove(item);
          const at = expected.findIndex((group) => group.includes(item));
          const rest = expected[at]?.filter((other) => other !== item) ?? [];
          expected.splice(at, 1, ...(rest.length === 0 ? [] : [rest]));
        } else {
          const [item, ...rest] = expected.shift() ?? [];
          if (rest.length > 0) expected.push(rest);
          expect(items.shift()).toBe(item);
        }
        expect(items.size).toBe(expected.flat().length);
      }
    }),
  );
});
