"""Layers, losses and initial values."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")

from halon.nn import functional, init
from halon.nn.activation import LogSoftmax, ReLU, Sigmoid, Softmax, Tanh
from halon.nn.batchnorm import BatchNorm1d, BatchNorm2d
from halon.nn.container import ModuleList, Sequential
from halon.nn.conv import Conv2d
from halon.nn.dropout import Dropout
from halon.nn.flatten import Flatten
from halon.nn.linear import Identity, Linear
from halon.nn.loss import CrossEntropyLoss, MSELoss, NLLLoss
from halon.nn.module import Module
from halon.nn.parameter import Parameter
from halon.nn.pooling import MaxPool2d

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "Conv2d", "CrossEntropyLoss", "Dropout", "Flatten", "Identity",
    "Linear", "LogSoftmax", "MSELoss", "MaxPool2d", "Module", "ModuleList", "NLLLoss", "Parameter",
    "ReLU", "Sequential", "Sigmoid", "Softmax", "Tanh", "functional", "init",
]  # fmt: skip
