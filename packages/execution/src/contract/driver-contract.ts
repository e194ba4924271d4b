import { adoptionRules } from "./adoption.ts";
import { besideRules } from "./exec.ts";
import { endingRules } from "./termination.ts";
import { environmentRules } from "./environment.ts";
import { inputRules } from "./input.ts";
import { resourceRules } from "./resources.ts";
import type { DriverContractCase } from "./setup.ts";
import { startingRules } from "./startup.ts";

/** The rules that hold for every driver, by subject. Each takes a fresh folder. */
export const driverContract: readonly DriverContractCase[] = [
  ...startingRules,
  ...environmentRules,
  ...endingRules,
  ...resourceRules,
  ...besideRules,
  ...inputRules,
  ...adoptionRules,
];
