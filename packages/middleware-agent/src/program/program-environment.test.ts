import { expect, it } from "vitest";
import { programEnvironment } from "./program-environment.ts";

it("keeps the secrets of the agent from its program", () => {
  const environment = { PATH: "/bin", AGENT_TOKEN: "a", PROGRAM_PASSWORD: "b", REDIS_PASSWORD: "c" };
  expect(programEnvironment(environment)).toEqual({ PATH: "/bin" });
});
