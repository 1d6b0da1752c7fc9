// The screens that exist. What is not here is not in the navigation.
import './overview.js';
import './question.js';
import './loop.js';
import './remediation.js';
import './agents.js';
import './cost.js';
import './policy.js';
import './settings.js';
