import { expect, it } from "vitest";
import { BodyLimit } from "./body-limit.ts";

it("lets the next call of a caller in when one leaves, and does not delay other callers", async () => {
  const limit = new BodyLimit(2);
  const entered: string[] = [];
  const enter = async (name: string): Promise<() => void> => {
    const leave = await limit.enter(name.slice(0, 1));
    entered.push(name);
    return leave;
  };
  const [first, second, third, fourth, other] = ["a1", "a2", "a3", "a4", "b1"].map(enter);
  await Promise.all([first, second, other]);
  expect(entered).toEqual(["a1", "a2", "b1"]);
  const leave = (await first) ?? expect.fail();
  leave();
  leave();
  await third;
  expect(entered).toEqual(["a1", "a2", "b1", "a3"]);
  (await second)?.();
  await fourth;
  for (const each of [third, fourth, other]) (await each)?.();
  await Promise.all([enter("a5"), enter("a6")]);
  expect(entered.slice(4)).toEqual(["a4", "a5", "a6"]);
});
