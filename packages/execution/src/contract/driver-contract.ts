import { adoptionRules } from "./adoption.ts";
import { execRules } from "./exec.ts";
import { terminationRules } from "./termination.ts";
import { environmentRules } from "./environment.ts";
import { inputRules } from "./input.ts";
import { resourceRules } from "./resources.ts";
import type { DriverContractCase } from "./setup.ts";
import { startupRules } from "./startup.ts";

/** The rules of every driver, by subject. Each needs a fresh directory. */
export const driverContract: readonly DriverContractCase[] = [
  ...startupRules,
  ...environmentRules,
  ...terminationRules,
  ...resourceRules,
  ...execRules,
  ...inputRules,
  ...adoptionRules,
];
